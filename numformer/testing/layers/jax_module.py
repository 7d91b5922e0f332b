"""A function of JAX and its parameters, a tree of arrays; or an object that is such a tree."""

import numpy as np

from numformer.testing.layers.running import Run, first_output, gradient_of, is_float


class JaxModule:
    """A function of JAX that runs on weights given by name.

    Parameters
    ----------
    module : callable
        Takes the parameters and the inputs; or an object, a tree of arrays, that takes the inputs.
    parameters : tree of arrays, optional
        Dicts, lists and tuples, one in another. Without it, `module` itself is the tree, or has it
        as its attribute `parameters` or `params`.
    call : callable, optional
        Takes the module, with the parameters where they are given, and the inputs.
    """

    transposes = False                                # weights are (in, out) unless shapes differ

    def __init__(self, module, parameters=None, call=None):
        from jax import tree_util

        self.name = getattr(module, "__name__", type(module).__name__)
        if parameters is None:
            tree, self.apply = _tree_of(module, call)
        elif call is None:
            tree, self.apply = parameters, module
        else:
            tree, self.apply = parameters, lambda tree, *inputs: call(module, tree, *inputs)
        paths, self.structure = tree_util.tree_flatten_with_path(tree)
        self.leaves = [leaf for _, leaf in paths]
        self.names = [".".join(str(getattr(key, "key", getattr(key, "idx", getattr(
            key, "name", key)))) for key in path) or "parameters" for path, _ in paths]
        self.floats = [_is_float(leaf) for leaf in self.leaves]
        self.weights = {name: np.array(leaf, np.float64) for name, leaf, is_float
                        in zip(self.names, self.leaves, self.floats) if is_float}
        import jax.numpy as jnp

        first = next((leaf for leaf, found in zip(self.leaves, self.floats) if found), None)
        self.dtype = str(jnp.asarray(first).dtype) if first is not None else "float32"

    def axes(self, name):
        """Nothing is known of them but their sizes."""

    def run(self, weights, inputs, dy):
        """The `Run` on these weights; sublayers are not seen."""
        import jax
        import jax.numpy as jnp

        given = [jnp.asarray(x, self.dtype) if is_float(x) else jnp.asarray(x) for x in inputs]
        floats = [k for k, x in enumerate(inputs) if is_float(x)]
        theirs = {name: jnp.asarray(x, self.dtype) for name, x in weights.items()}

        def f(theirs, arrays):
            leaves = [theirs[name] if found else leaf for name, leaf, found
                      in zip(self.names, self.leaves, self.floats)]
            of = dict(zip(floats, arrays))
            return first_output(self.apply(
                jax.tree_util.tree_unflatten(self.structure, leaves),
                *(of.get(k, x) for k, x in enumerate(given))))

        y, backward = jax.vjp(f, theirs, [given[k] for k in floats])
        gradient = gradient_of(np.asarray(y), dy)
        of_weights, of_inputs = backward(jnp.asarray(gradient, y.dtype))
        arrays = dict(zip(floats, of_inputs))
        return Run(_array(y), [_array(arrays[k]) if k in arrays else None
                               for k in range(len(inputs))],
                   {name: _array(x) for name, x in of_weights.items()})


def _tree_of(module, call):
    """(the tree of parameters, the function of the tree and inputs) of an object."""
    from jax import tree_util

    call = call or (lambda module, *inputs: module(*inputs))
    if tree_util.treedef_is_leaf(tree_util.tree_structure(module)):
        for key in ("parameters", "params"):
            if isinstance(getattr(module, key, None), (dict, list, tuple)):
                return getattr(module, key), lambda tree, *inputs: _with(module, key, tree, call,
                                                                         inputs)
        raise TypeError(f"assert_layer_matches: no parameters are found in {module!r}; give "
                        "parameters=, the tree of arrays that a function takes first.")
    return module, call


def _with(module, key, tree, call, inputs):
    """A call of an object while one of its attributes is another tree."""
    before = getattr(module, key)
    setattr(module, key, tree)
    try:
        return call(module, *inputs)
    finally:
        setattr(module, key, before)


def _is_float(x):
    return hasattr(x, "dtype") and "float" in str(x.dtype)


def _array(x):
    return np.array(x, np.float64)
