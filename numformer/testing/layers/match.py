"""Compare a whole layer of another library, or of one's own, with ours: y and every gradient."""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from numformer.checks import check_number, check_whole
from numformer.parameter import Layer
from numformer.testing.half import EPSILONS, rounded
from numformer.testing.layers.causes import other_setting
from numformer.testing.layers.numpy_layer import NumpyLayer
from numformer.testing.layers.ours import OurLayer, OwnLayer
from numformer.testing.layers.pairs import BY_ORDER, Pairing, table
from numformer.testing.layers.running import farthest, is_float
from numformer.verify.errors import largest, relative_error

# Of a dtype: its epsilon, the relative error of a right answer, and how many times what random
# rounding errors of weights and inputs do is allowed
PRECISIONS = {"float64": (2.0 ** -52, 1e-9, 100), "float32": (2.0 ** -23, 1e-4, 30),
              "float16": (2.0 ** -10, 1e-2, 3), "bfloat16": (2.0 ** -7, 5e-2, 3)}
DRAWS = 8                                             # of rounding errors in half precision
OWNER = "assert_layer_matches"


def assert_layer_matches(module, layer, inputs, names=None, options=None, call=None,
                         parameters=None, rtol=None, seed=0):
    """Assert that a module computes the same as a layer of ours: y, and every gradient.

    The module's weights are copied into a copy of our layer, which runs in float64. A weight whose
    numbers are all equal, such as a bias that begins at 0, would hide errors: it gets random
    numbers in both. Neither object is changed in the end. The pairs of weights are printed.

    Parameters
    ----------
    module : module, function or object
        A module of PyTorch; a function of JAX of (parameters, inputs), with `parameters`, or an
        object that is a tree of arrays; an object in NumPy with `forward` and `backward`: a
        `Layer`, or any other that keeps the gradient of an array `w` in `dw`, `grad_w`, or
        `grads["w"]` for ``params["w"]``.
    layer : Layer
        Ours: a layer, a block, or a small model.
    inputs : sequence of ndarray
        Floats are cast to the precision of the module's weights. The verdict is about these shapes.
    names : dict, optional
        For weights that shapes and names do not pair: their name to ours, or to a list of ours that
        theirs holds one after another. Also of sublayers, as ``{"mlp": "feedforward"}``.
    options : dict, or callable that makes one, optional
        Keyword arguments of our forward, such as ``{"pattern": CAUSAL}``.
    call : callable, optional
        How the module is called: it takes the module (for JAX also the parameters, where they are
        given) and the inputs, and returns y or a tuple that begins with y.
    parameters : tree of arrays, optional
        Of a function of JAX.
    rtol : float, optional
        The largest relative error; by default 1e-9 in float64, 1e-4 in float32, 1e-2 in float16 and
        5e-2 in bfloat16. What random rounding errors of weights and inputs explain is no error.
    seed : int
        Of the gradient of y and of the random numbers.

    Raises
    ------
    AssertionError
        If anything differs: the first array and where, both numbers, their relative error, the pair
        of weights, what else differs and what is right, and the first sublayer that differs.
    ValueError, TypeError
        If a weight finds no partner, with what to give in `names`; if an argument is not as above.

    Notes
    -----
    Sublayers are compared where they have the same weights, in the order in which they run; those
    of a function of JAX are not seen. A dropout that is active makes the module random, which is an
    error: call ``module.eval()``.

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> class Affine:
    ...     def __init__(self):
    ...         self.W, self.b = np.ones((3, 2)), np.zeros(2)
    ...     def forward(self, x):
    ...         self.x = x
    ...         return x @ self.W + self.b
    ...     def backward(self, dy):
    ...         self.dW, self.db = self.x.T @ dy, dy.mean(axis=0)
    ...         return dy @ self.W.T
    >>> assert_layer_matches(Affine(), Linear(3, 2, np.random.default_rng(0)), [np.eye(3)])
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: Affine against Linear: the gradient of b is wrong in 2 of 2 entries, ...
    """
    __tracebackhide__ = True
    text = compared(module, layer, inputs, names, options, call, parameters, rtol, seed)
    if text:
        raise AssertionError(text)


def compared(module, layer, inputs, names, options, call, parameters, rtol, seed):
    """What differs, in words; "" if nothing does. The pairs are printed."""
    __tracebackhide__ = True                          # pytest shows the module's own lines alone
    inputs = _checked(layer, inputs, names, rtol, seed)
    theirs, ours = adapted(module, parameters, call), OurLayer(layer, options)
    if theirs.dtype not in PRECISIONS:
        raise TypeError(f"{OWNER}: the weights of {theirs.name} are {theirs.dtype}; use one of "
                        f"{', '.join(PRECISIONS)}.")
    inputs = [rounded(x, theirs.dtype) if is_float(x) else x for x in inputs]

    def dy(shape):
        gradient = np.random.default_rng(seed + 1).standard_normal(shape) if shape else 1.7
        return rounded(np.float64(gradient), theirs.dtype)

    without = theirs.prepare(inputs, dy) if isinstance(theirs, NumpyLayer) else []
    try:
        pairing = Pairing(theirs, ours, names)
    except ValueError as error:
        more = (f" Arrays without a gradient are no weights: {', '.join(without)}."
                if without else "")
        raise ValueError(f"{error}{more}") from None
    weights = _varied(theirs, seed)
    found = theirs.run(weights, inputs, dy)
    again = theirs.run(weights, inputs, dy)
    verdict = Comparison(theirs, ours, pairing, weights, inputs, dy, rtol)
    if not verdict.same(found.y, again.y):
        return (f"{theirs.name}: random: two calls with the same inputs and weights gave different "
                "results; switch dropout off, as by module.eval(), and keep nothing between calls.")
    verdict.choose(found)
    print(verdict.table())
    return verdict.text(found)


def adapted(module, parameters=None, call=None):
    """A module of any library, as what runs on weights by name.

    Raises
    ------
    TypeError
        If it is none of those of `assert_layer_matches`.
    """
    __tracebackhide__ = True
    if call is not None and not callable(call):
        raise TypeError(f"{OWNER}: call must be a function of the module and the inputs.")
    if hasattr(module, "named_parameters") and hasattr(module, "register_forward_hook"):
        from numformer.testing.layers.torch_module import TorchModule

        return TorchModule(module, call)
    if isinstance(module, Layer):
        return OwnLayer(module, call)
    if all(callable(getattr(module, name, None)) for name in ("forward", "backward")):
        if isinstance(module, type):
            raise TypeError(f"{OWNER}: {module.__name__} is a class; pass an object of it.")
        return NumpyLayer(module, call)
    if callable(module):
        try:
            from numformer.testing.layers.jax_module import JaxModule

            return JaxModule(module, parameters, call)
        except ImportError:
            raise TypeError(
                f"{OWNER}: {getattr(module, '__name__', type(module).__name__)} has no backward, "
                "and JAX, which would derive it, is not installed; pass a module of PyTorch or an "
                "object with forward and backward.") from None
    raise TypeError(f"{OWNER}: module must be a module of PyTorch, a function of JAX with "
                    "parameters=, or an object with forward and backward, but is "
                    f"{type(module).__name__}.")


@dataclass
class Difference:
    """Where an array differs first."""

    wrong: int
    size: int
    index: tuple
    found: float
    reference: float
    error: float

    def __str__(self):
        return (f"in {self.wrong} of {self.size} entries, first at {self.index}: module "
                f"{self.found:.6g}, numformer {self.reference:.6g}, relative error "
                f"{self.error:.2g}")


class Comparison:
    """One module and our layer on the same weights and inputs."""

    def __init__(self, theirs, ours, pairing, weights, inputs, dy, rtol):
        self.theirs, self.ours, self.pairing, self.weights = theirs, ours, pairing, weights
        self.inputs, self.dy = inputs, dy
        self.epsilon, usual, self.factor = PRECISIONS[theirs.dtype]
        self.rtol = usual if rtol is None else rtol

    def choose(self, found):
        """Run our layer; where its y differs, try the other pairings that the shapes allow."""
        self._run()
        if self._y_differs(found):
            for _ in self.pairing.others():
                self._run()
                if not self._y_differs(found):
                    return
            self._run()

    def table(self):
        """The pairs of weights, one a line."""
        return "\n  ".join([f"{self.theirs.name} = {self.ours.name} of numformer, in "
                            f"{self.theirs.dtype}:", *table(self.pairing.pairs)])

    def text(self, found):
        """What differs, in words; "" if nothing does."""
        name = f"{self.theirs.name} against {self.ours.name}"
        if np.shape(found.y) != np.shape(self.exact.y):
            return (f"{name}: y has shape {np.shape(found.y)}, but that of numformer has "
                    f"{np.shape(self.exact.y)}.")
        wrong, right = [], []
        for what, difference, pair in self._differences(found):
            if difference is None:
                right.append(what)
            else:
                wrong.append((what, difference, pair))
        if not wrong:
            return ""
        what, difference, pair = wrong[0]
        is_y = what == "y"
        lines = [f"{name}: {what} is wrong {difference}." if isinstance(difference, Difference)
                 else f"{name}: {what} {difference}."]
        if pair is not None:
            lines.append(f"The pair of weights: {pair}.")
        if not is_y and len(wrong) > 1:
            lines.append(f"Wrong, too: {', '.join(each[0] for each in wrong[1:])}.")
        if not is_y and right:
            lines.append(f"Right: {', '.join(right)}.")
        place = self._place(found, self._first_sublayer if is_y else self._last_gradient)
        lines += place
        doubtful = [pair for pair in self.pairing.pairs if pair.how == BY_ORDER]
        if self.theirs.dtype == "float64" and self._is_like_float32(found):
            lines.append("The module is right in float32: something in it computes in float32; "
                         "compare in float32, or give rtol=1e-5.")
        error, noise = (np.abs(y - self.exact.y).max() for y in (found.y, self.rough.y))
        cause = self._cause(found) if is_y or error > 30 * noise else ""
        word = "Likely causes, " if cause.startswith("two: ") else "Likely cause: "
        lines += [f"{word}{cause}."] if cause else []
        if is_y and found.calls and not place and not cause:
            lines.append("No sublayer could be compared: none has the weights and as many vectors "
                         "as one of ours." + (f" Right: {', '.join(right)}." if right else ""))
        if is_y and doubtful and not place and not cause:
            lines.append("Names did not tell which is which of "
                         f"{', '.join(pair.theirs for pair in doubtful)}: if a pair is wrong, give "
                         "names=.")
        return "\n".join(lines)

    def _is_like_float32(self, found):
        """Whether nothing differs by more than float32 explains."""
        with self._precision("float32"):
            return all(difference is None for _, difference, _ in self._differences(found))

    @contextmanager
    def _precision(self, dtype):
        """Compare as in another precision meanwhile."""
        usual = self.epsilon, self.rtol, self.factor
        exact, rough = self.exact, self.rough
        self.epsilon, self.rtol, self.factor = PRECISIONS[dtype]
        try:
            self._run()
            yield
        finally:
            (self.epsilon, self.rtol, self.factor), self.exact, self.rough = usual, exact, rough

    def _place(self, found, search):
        """In words where it differs first: as in float32, then as precisely as can be."""
        with self._precision("float32" if self.theirs.dtype == "float64" else self.theirs.dtype):
            place = search(found)
        return [place] if place and "All sub" not in place else list(filter(None, [search(found)]))

    def _cause(self, found):
        """Another setting of our layer with which it has the y of the module; "" if none has."""
        arrays = self.pairing.arrays(self.weights)

        usual = self.ours.layer, self.ours.options, self.inputs, lambda y: y
        seen = np.isfinite(found.y)                   # a row that may attend to nothing may be NaN

        def error_of(layer, options, inputs, output):
            with np.errstate(all="ignore"):
                y = np.asarray(output(OurLayer(layer, options).run(arrays, inputs, self.dy).y))
            if y.shape != found.y.shape or not seen.any():
                return np.inf
            return largest(relative_error(found.y[seen], y[seen], np.abs(y).max(initial=0)))

        # a module in float64 that computes its norms in float32 may have further errors
        close = min(max(self.rtol, 1e-5), 0.1 * error_of(*usual))
        cause = other_setting(self.ours.layer, self.ours.options, self.inputs, error_of, close)
        if not cause:
            for theirs, order in self.pairing.other_blocks():
                arrays = self.pairing.arrays(self.weights)
                if not cause and error_of(*usual) <= close:
                    cause = (f"{theirs} holds {', '.join(order)} in this order; if that is meant, "
                             f"give names={{{theirs!r}: {order!r}, ...}}")
        return cause

    def same(self, first, second):
        """Whether two results of the module agree up to its rounding."""
        first, second = (np.nan_to_num(np.asarray(y, float)) for y in (first, second))
        scale = np.abs(second).max(initial=0)
        return bool((relative_error(first, second, scale) <= max(self.rtol, 1e-6)).all())

    def _run(self):
        arrays = self.pairing.arrays(self.weights)
        self.exact = self.ours.run(arrays, self.inputs, self.dy)
        self.rough = self._rough(arrays, self.exact)

    def _rough(self, arrays, exact, recorded=False):
        """The run with rounding errors of the module's precision.

        In half precision, each sublayer adds its own, also to the gradients: what cancels in a sum
        has errors of the size of its terms, and a unit of ReLU near its kink may be on or off. Of
        several draws, each array is that of the one in which it changes most.
        """
        rng, half = np.random.default_rng(0), self.theirs.dtype in EPSILONS
        error = self.epsilon / 2 if half else self.epsilon

        def noisy(x):
            return (x * (1 + error * rng.uniform(-1, 1, x.shape))).astype(x.dtype) \
                if is_float(x) else x

        def run():
            return self.ours.run(
                {name: noisy(x) for name, x in arrays.items()}, [noisy(x) for x in self.inputs],
                self.dy, np.float64 if self.theirs.dtype == "float64" else np.float32,
                recorded or half, noisy if half else None)
        return farthest(exact, [run() for _ in range(DRAWS if half else 1)])

    def _y_differs(self, found):
        return self._difference(found.y, self.exact.y, self.rough.y) is not None

    def _differences(self, found):
        """(what, None or how it differs, the pair of weights) of y and of every gradient."""
        exact, rough = self.exact, self.rough
        yield "y", self._difference(found.y, exact.y, rough.y), None
        many = sum(map(is_float, self.inputs)) > 1
        for k, x in enumerate(self.inputs):
            if is_float(x):
                what = f"the gradient of input {k}" if many else "the gradient of the input"
                yield what, self._gradient(found.inputs[k], exact.inputs[k], rough.inputs[k]), None
        for pair in self.pairing.pairs:
            what = f"the gradient of {pair.their_part}"
            gradient = found.parameters[pair.theirs]
            yield what, self._gradient(
                None if gradient is None else pair.view(gradient),
                pair.part(exact.parameters[pair.ours]), pair.part(rough.parameters[pair.ours]),
            ), pair

    def _gradient(self, found, exact, rough):
        if exact is None:
            return None
        if found is None:
            return None if not np.any(exact) else "is missing: it has no gradient"
        if np.shape(found) != np.shape(exact):
            return f"has shape {np.shape(found)}, but must have {np.shape(exact)}"
        return self._difference(found, exact, rough)

    def _difference(self, found, exact, rough=None):
        """None, or the first Difference; what rounding errors of the inputs explain is none."""
        found, exact = np.asarray(found, float), np.asarray(exact, float)
        if found.shape != exact.shape:
            return Difference(found.size, exact.size, (), np.nan, np.nan, np.inf)
        error = relative_error(found, exact, np.abs(exact).max(initial=0))
        noise = 0.0 if rough is None else np.abs(np.asarray(rough, float) - exact).max(initial=0)
        wrong = (error > self.rtol) & ~(np.abs(found - exact) <= self.factor * noise)
        if not wrong.any():
            return None
        index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
        return Difference(int(wrong.sum()), wrong.size, index, float(found[index]),
                          float(exact[index]), float(error[index]))

    def _sublayers(self, found):
        """(call of theirs, call of ours, ours with rounding errors) of sublayers with the same
        weights, in the order in which theirs ended; theirs with the shapes of ours."""
        arrays, named = self.pairing.arrays(self.weights), {}
        exact = self.ours.run(arrays, self.inputs, self.dy, recorded=True)
        for calls in zip(exact.calls, self._rough(arrays, exact, recorded=True).calls):
            named.setdefault(calls[0].name, []).append(calls)
        seen = {}
        for call in found.calls:
            weights = self._weights_under(call.name, "theirs")
            if not weights:
                continue
            for name, calls in named.items():
                k = seen.get((call.name, name), 0)
                if (self._weights_under(name, "ours") == weights and k < len(calls)
                        and _rows(calls[k][0].output) == _rows(call.output)):
                    seen[call.name, name] = k + 1
                    yield _shaped_as(calls[k][0], call), *calls[k]
                    break

    def _weights_under(self, name, side):
        """The pairs whose weights belong to a sublayer."""
        return frozenset(k for k, pair in enumerate(self.pairing.pairs)
                         if getattr(pair, side).startswith(f"{name}."))

    def _first_sublayer(self, found):
        """Which sublayer differs first, and whether what it got differs already."""
        last = None
        for theirs, ours, rough in self._sublayers(found):
            difference = self._difference(theirs.output, ours.output, rough.output)
            if difference is None:
                last = theirs
                continue
            named = f"{theirs.name} (ours: {ours.name})"
            after = f"after {last.name}, which is right, and " if last else ""
            if self._given_differs(theirs, ours, rough):
                return (f"The first sublayer that differs is {named}: what it gets differs "
                        f"already, so the error is {after}before {theirs.name}, in what has no "
                        "weights, or in the order.")
            inside = [str(pair) for pair in self.pairing.pairs
                      if pair.theirs.startswith(f"{theirs.name}.")]
            more = "" if len(inside) > 4 else f", whose weights are {'; '.join(inside)}"
            return (f"The first sublayer that differs is {named}{more}: what it gets is right, and "
                    f"its output is wrong {difference}.")
        if last is not None:
            return (f"All sublayers that could be compared are right, to {last.name}, the last: "
                    "the error is after it, in what has no weights.")
        return ""

    def _given_differs(self, *calls):
        if not all(call.inputs for call in calls):
            return False
        theirs, ours, rough = (call.inputs[0] for call in calls)
        return theirs.shape == ours.shape and self._difference(theirs, ours, rough) is not None

    def _last_gradient(self, found):
        """Going back from y, which sublayer first has a wrong gradient of its output."""
        last = None
        for theirs, ours, rough in reversed(list(self._sublayers(found))):
            if theirs.gradient is None or ours.gradient is None:
                continue
            if self._difference(theirs.gradient, ours.gradient, rough.gradient) is not None:
                after = f"; that of {last} is right" if last else ""
                return (f"Backward from y, the gradient of the output of {theirs.name} (ours: "
                        f"{ours.name}) is the first that differs{after}.")
            last = theirs.name
        return ""


def _rows(x):
    """How many vectors an array holds, and their width: tokens may be (B, T, C) or (N, C)."""
    return np.size(x) // max(1, np.shape(x)[-1]), np.shape(x)[-1]


def _shaped_as(ours, theirs):
    """A Call of theirs with arrays in the shapes of ours, where these are as large."""
    def shaped(x, like):
        return x if x is None or np.size(x) != np.size(like) else np.reshape(x, np.shape(like))
    return replace(theirs, output=shaped(theirs.output, ours.output),
                   gradient=shaped(theirs.gradient, ours.output),
                   inputs=[shaped(*each) for each in zip(theirs.inputs, ours.inputs)])


def _varied(theirs, seed):
    """Their weights, in which none has all its numbers equal."""
    rng = np.random.default_rng(seed)
    return {name: rounded(x + 0.1 * rng.standard_normal(x.shape) if x.size and np.ptp(x) == 0
                           else x, theirs.dtype) for name, x in theirs.weights.items()}


def _checked(layer, inputs, names, rtol, seed):
    __tracebackhide__ = True
    if not isinstance(layer, Layer):
        raise TypeError(f"{OWNER}: layer must be a Layer of numformer, but is "
                        f"{type(layer).__name__}.")
    if isinstance(inputs, np.ndarray) or not all(isinstance(x, np.ndarray) for x in inputs):
        raise TypeError(f"{OWNER}: inputs must be a list of arrays, such as [x].")
    if not all(x.size for x in inputs):
        raise ValueError(f"{OWNER}: inputs of shapes {[x.shape for x in inputs]} must not be "
                         "empty.")
    if not isinstance(names, (dict, type(None))):
        raise TypeError(f"{OWNER}: names must be a dict, their name to ours, but is "
                        f"{type(names).__name__}.")
    check_whole(OWNER, "seed", seed, least=0)
    if rtol is not None:
        check_number(OWNER, "rtol", rtol, above=0)
    return list(inputs)
