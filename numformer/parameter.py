"""Parameter and Layer: trainable arrays, and trees of layers that own them.

A layer is a plain object. Its parameters and sublayers are its attributes, in the order in which
`__init__` sets them. Nothing is registered: the tree is found by walking over the attributes.
"""

import html
from inspect import isfunction

import numpy as np

from numformer.checks import check_generator
from numformer.description.parts import Description
from numformer.other_libraries import as_array
from numformer.shapes_only import counted, without_memory
from numformer.underflow import underflow_is_zero

__all__ = ["Layer", "Parameter", "constant", "normal", "part_of", "some_of"]


class Parameter:
    """A trainable array `data`, and the gradient `grad` that backward passes accumulate for it.

    Parameters
    ----------
    data : ndarray
        The values, of any shape; not copied.

    Attributes
    ----------
    trained : bool
        False for a frozen parameter, of the class `FrozenParameter`: see `Layer.freeze`.

    Notes
    -----
    `grad` has the shape and dtype of `data`. It is allocated, as zeros, when it is first read: a
    model that is only counted or only sampled from needs no memory for it.
    """

    trained = True

    def __init__(self, data):
        self.data = data

    def __getattr__(self, name):                      # called only for what is not there yet
        if name != "grad":
            raise AttributeError(f"Parameter has no attribute {name!r}.")
        self.grad = np.zeros(self.data.shape, self.data.dtype)
        return self.grad

    def set_trained(self, trained):
        """Freeze it, or train it again; a gradient that it had is forgotten."""
        self.__class__ = Parameter if trained else FrozenParameter
        vars(self).pop("grad", None)

    def zero_grad(self):
        """Set the gradient to zero."""
        if "grad" in vars(self):
            self.grad[...] = 0

    def describe(self):
        """The `Description` of a parameter that a model adds or multiplies without a layer."""
        return Description("Parameter", gradient=(r"d\theta = \Sigma_b dy_b",))

    def __repr__(self):
        frozen = "" if self.trained else ", frozen"
        return f"Parameter(shape={self.data.shape}, dtype={self.data.dtype}{frozen})"


class FrozenParameter(Parameter):
    """A parameter that no optimizer moves, and whose gradient is always 0.

    What a backward adds to the gradient is dropped, so a layer need not know of it; where the
    gradient costs a product of matrices, the layer leaves it out.

    Examples
    --------
    >>> parameter = Parameter(np.ones(2))
    >>> parameter.set_trained(False)
    >>> parameter.grad += 5
    >>> parameter.trained, parameter.grad
    (False, array([0., 0.]))
    """

    trained = False

    @property
    def grad(self):
        return np.zeros(self.data.shape, self.data.dtype)

    @grad.setter
    def grad(self, value):
        pass


def normal(rng, shape, std, dtype):
    """A Parameter with samples from a normal distribution with mean 0.

    Parameters
    ----------
    rng : numpy.random.Generator or None
        None gives zeros that take no memory (every stride is 0): such a model has all its names and
        shapes, but no numbers. In this way models of any size are counted.
    shape : tuple of int
    std : float
    dtype : float32 or float64

    Returns
    -------
    Parameter

    Raises
    ------
    TypeError
        If `rng` is anything else, such as a seed.

    Examples
    --------
    >>> normal(None, (10**6, 10**6), 1.0, np.float32).data.strides
    (0, 0)
    """
    if counted(shape) or rng is None:
        return Parameter(without_memory(0, shape, _real(dtype)))
    check_generator("normal", rng)
    return Parameter(rng.standard_normal(shape, dtype=_real(dtype)) * float(std))


def constant(value, shape, dtype):
    """A Parameter with the same number everywhere: norm weights start at 1, biases at 0.

    Examples
    --------
    >>> constant(1, (2,), np.float32).data
    array([1., 1.], dtype=float32)
    """
    if counted(shape):
        return Parameter(without_memory(value, shape, _real(dtype)))
    return Parameter(np.full(shape, value, _real(dtype)))


def _real(dtype):
    """Check that a dtype is float32 or float64."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise TypeError(f"dtype={dtype} must be float32 or float64.")
    return np.dtype(dtype)


class Layer:
    """A `forward` and a `backward`, with parameters, sublayers and settings.

    .. code-block:: python

        y, saved = layer.forward(x)         # saved: what the backward needs
        dx = layer.backward(dy, saved)      # the gradient of every array input, in their order
        y = layer(x)                        # forward without saved: inference

    A layer keeps nothing of a call, so it may run forward twice before it runs backward. Parameter
    gradients accumulate.
    """

    def __init_subclass__(cls, **options):
        """What a layer computes may underflow to 0, as in `numformer.functional`."""
        super().__init_subclass__(**options)
        for name in ("forward", "backward", "step", "loss", "loss_backward"):
            if isfunction(vars(cls).get(name)):
                setattr(cls, name, underflow_is_zero(vars(cls)[name]))

    def __call__(self, *inputs, **options):
        """y of `forward`; inputs may be arrays of other libraries that have `__array__`."""
        return self.forward(*map(as_array, inputs), **{
            name: as_array(value) for name, value in options.items()})[0]

    drawn = True                                      # False for what a diagram leaves out

    def describe(self):
        """The `numformer.description.Description` of this layer: its name, sizes and gradient.

        Every layer that a diagram shows, or that multiplies, has one of its own.
        """
        return Description(type(self).__name__)

    def describe_parts(self, reader, box):
        """What is in the box of this layer, in series, for a diagram of one block: the box alone.

        `reader` is a `numformer.description.Reader`, which makes the boxes of sublayers.
        """
        return box,

    def keys_seen(self, T):
        """{attention: (mean number of its keys, whether it has a cache)} for a sequence of T.

        For attention inside this layer that is not just causal.
        """
        return {}

    def named_parameters(self):
        """All (dotted name, Parameter), each object once: a tied parameter has its first name."""
        return ((name, part) for name, part in _walk(self, "", set())
                if isinstance(part, Parameter))

    def named_layers(self):
        """All (dotted name, Layer), each once, beginning with this layer, whose name is empty."""
        return ((name, part) for name, part in _walk(self, "", set()) if isinstance(part, Layer))

    def parameters(self):
        """All parameters, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters()]

    def trained_parameters(self):
        """{dotted name: Parameter} of those that are not frozen."""
        return {name: part for name, part in self.named_parameters() if part.trained}

    def freeze(self, *names):
        """Let parameters be as they are in the training that follows; returns this layer.

        Freeze before the optimizer is made: it has the trained parameters alone.

        Parameters
        ----------
        *names : str
            Dotted names of parameters, or of layers for all that are inside; without names, all. A
            tied parameter is frozen at all of its places, and has the name of the first.

        Raises
        ------
        ValueError
            If there is no parameter of such a name, or in a layer of such a name.

        Examples
        --------
        >>> from numformer.layers import FeedForward
        >>> layer = FeedForward(4, 8, "relu", np.random.default_rng(0))
        >>> list(layer.freeze("hidden", "output.bias").trained_parameters())
        ['output.weight']
        >>> len(layer.unfreeze("hidden").trained_parameters())
        3
        """
        return self._set_trained("freeze", names, False)

    def unfreeze(self, *names):
        """Train parameters again; names as for `freeze`."""
        return self._set_trained("unfreeze", names, True)

    def _set_trained(self, method, names, trained):
        parameters, chosen = dict(self.named_parameters()), set()
        for name in names:
            inside = {each for each in parameters if each == name or each.startswith(f"{name}.")}
            if not inside:
                raise ValueError(f"{type(self).__name__}: {method} found no parameter {name!r}; "
                                 f"there are {some_of(list(parameters))}.")
            chosen |= inside
        for name in chosen if names else parameters:
            parameters[name].set_trained(trained)
        return self

    def zero_grad(self):
        """Set all gradients to zero."""
        for parameter in self.parameters():
            parameter.zero_grad()

    def after_step(self):
        """What a trainer calls after each step, for a model that bounds a parameter."""

    def state_dict(self):
        """Copies of all parameters' data, by name."""
        return {name: parameter.data.copy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state):
        """Copy the arrays of `state` into the parameters of the same names.

        Parameters
        ----------
        state : dict of str to ndarray
            Exactly the names of `named_parameters`, with arrays of floats of the same shapes; they
            are cast to the parameters' dtype. Arrays of other libraries may have `__array__`.

        Raises
        ------
        ValueError
            If names are missing or unexpected, or a shape differs; then nothing is loaded.
        TypeError
            If an entry is not an array of floats.
        """
        owner = type(self).__name__
        parameters = dict(self.named_parameters())
        missing = [name for name in parameters if name not in state]
        unexpected = [name for name in state if name not in parameters]
        if missing or unexpected:
            raise ValueError(f"{owner}: the state does not fit; missing: {some_of(missing)}; "
                             f"unexpected: {some_of(unexpected)}.")
        state = {name: as_array(state[name]) for name in parameters}
        for name, parameter in parameters.items():
            x = state[name]
            if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
                raise TypeError(f"{owner}: the state's {name} must be an array of floats, but is "
                                f"{getattr(x, 'dtype', type(x).__name__)}.")
            if not parameter.data.flags.writeable:
                raise ValueError(f"{owner}: {name} cannot be loaded, because the model was built "
                                 "for counting only; call its allocate() first.")
            if x.shape != parameter.data.shape:
                raise ValueError(f"{owner}: the state's {name} has shape {x.shape}, "
                                 f"but must have {parameter.data.shape}.")
        for name, parameter in parameters.items():
            parameter.data[...] = state[name]

    def allocate(self):
        """Give every parameter memory of its own, without values yet; returns this layer.

        For a model that was built with ``rng=None``, with shapes only: no weights are sampled that
        others replace, as in ``Decoder(config, rng=None).allocate().load_state_dict(state)``.
        """
        for parameter in self.parameters():
            parameter.data = np.empty(parameter.data.shape, parameter.data.dtype)
            vars(parameter).pop("grad", None)
        return self

    def replica(self):
        """The same tree over the same `data` with its own gradients, for shards run in parallel."""
        return _replica(self, {})

    def __repr__(self):
        settings = []
        for name, value in vars(self).items():
            if isinstance(value, Parameter):
                settings.append(f"{name}={value.data.shape}")
            elif isinstance(value, Layer):
                settings.append(f"{name}={type(value).__name__}")
            elif isinstance(value, (list, tuple)) and value and isinstance(value[0], Layer):
                settings.append(f"{name}={len(value)} x {type(value[0]).__name__}")
            elif isinstance(value, (bool, int, float, str)):
                settings.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(settings)})"

    def _repr_html_(self):
        rows = [f"<tr><td><code>{html.escape(name)}</code></td><td>{parameter.data.shape}</td>"
                f"<td>{parameter.data.dtype}</td><td>{parameter.data.size:,}</td></tr>"
                for name, parameter in self.named_parameters()]
        total, trained = (sum(parameter.data.size for parameter in each) for each in (
            self.parameters(), self.trained_parameters().values()))
        kind = html.escape(type(self).__name__)
        frozen = "" if trained == total else f", {trained:,} of them trained"
        return (f"<table><caption>{kind}: {total:,} parameters{frozen}</caption>"
                "<tr><th>parameter</th><th>shape</th><th>dtype</th><th>numbers</th></tr>"
                + "".join(rows) + "</table>")


def _walk(part, name, seen):
    """(name, part) of every parameter and layer in the tree, once, in the order of attributes."""
    if isinstance(part, (Parameter, Layer)):
        if id(part) in seen:
            return
        seen.add(id(part))
        yield name, part
    if isinstance(part, Layer):
        children = vars(part).items()
    elif isinstance(part, dict):
        children = part.items()
    elif isinstance(part, (list, tuple)):
        children = enumerate(part)
    else:
        return
    for key, child in children:
        yield from _walk(child, f"{name}.{key}" if name else str(key), seen)


def _replica(part, copies):
    """Copy the tree; `copies` maps parts that are copied already, so that tied ones stay tied."""
    if id(part) in copies:
        return copies[id(part)]
    if isinstance(part, Parameter):
        copy = type(part)(part.data)                  # frozen, too, or not
    elif isinstance(part, Layer):
        copy = object.__new__(type(part))
        copies[id(part)] = copy
        vars(copy).update({name: _replica(child, copies) for name, child in vars(part).items()})
    elif isinstance(part, dict):
        copy = {key: _replica(child, copies) for key, child in part.items()}
    elif type(part) is tuple or isinstance(part, list):
        copy = type(part)(_replica(child, copies) for child in part)
    else:
        copy = part                                   # settings are shared, and never written into
    copies[id(part)] = copy
    return copy


def part_of(arrays, prefix):
    """The arrays whose names begin with a prefix, by the names without it.

    Examples
    --------
    >>> part_of({"model.a": 1, "optimizer.b": 2}, "model.")
    {'a': 1}
    """
    return {name.removeprefix(prefix): array
            for name, array in arrays.items() if name.startswith(prefix)}


def some_of(names):
    """At most five of the names, for a message."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more or "none"
