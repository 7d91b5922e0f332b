"""Parameters side by side in one vector, and their gradients in another: one pass for all of them.

An optimizer that treats every number alike need not know where one parameter ends. Small arrays
each cost a call, whatever their size; one long vector costs one, read at the speed of memory.
"""

import numpy as np

CHUNK = 2**16                           # numbers of a chunk: with two moments, 1 MB in float32
SMALLEST, PARTS = 2**8, 64              # a short vector has 64 chunks: N processes share them


class FlatParameters:
    """Move parameters into one vector: the `data` of each becomes a view of its part.

    The gradients lie in a second vector in the same way. Values do not change.

    Parameters
    ----------
    parameters : dict of str to Parameter
        Each once, of one dtype.

    Attributes
    ----------
    data, grad : ndarray, shape (N,)

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> layer = Linear(2, 3, np.random.default_rng(0))
    >>> flat = FlatParameters(dict(layer.named_parameters()))
    >>> flat.data.shape, layer.weight.data.shape
    ((9,), (2, 3))
    >>> layer.weight.data[...] = 5
    >>> flat.data
    array([5., 5., 5., 5., 5., 5., 0., 0., 0.], dtype=float32)
    """

    def __init__(self, parameters):
        self.parameters = parameters
        sizes = [parameter.data.size for parameter in parameters.values()]
        dtype = next(iter(parameters.values())).data.dtype
        self.data, self.grad = np.empty(sum(sizes), dtype), np.zeros(sum(sizes), dtype)
        self._views = list(zip(self.views(self.data).values(), self.views(self.grad).values()))
        self.adopt()

    def adopt(self):
        """Copy in what was assigned meanwhile, as in ``parameter.data = x``; it is a view again."""
        for parameter, (data, grad) in zip(self.parameters.values(), self._views):
            if not parameter.trained:
                raise ValueError("a parameter was frozen after its optimizer was made, which would "
                                 "still move it; freeze it first.")
            if parameter.data is not data:
                data[...] = parameter.data
                parameter.data = data
            if parameter.grad is not grad:
                grad[...] = parameter.grad
                parameter.grad = grad

    def views(self, vector):
        """The parts of a vector (N,) that belong to each parameter, in its shape, by name."""
        found, start = {}, 0
        for name, parameter in self.parameters.items():
            stop = start + parameter.data.size
            found[name] = vector[start:stop].reshape(parameter.data.shape)
            start = stop
        return found

    def new_gradient(self, parameters):
        """A vector (N,) of zeros as the gradients of a replica's parameters, given by name."""
        gradient = np.zeros_like(self.grad)
        for name, view in self.views(gradient).items():
            parameters[name].grad = view
        return gradient


def cuts(size):
    """(start, stop) of the chunks of a vector of `size` numbers.

    Chunks are the work of threads, and the shares of processes. They do not depend on how many of
    these there are.

    Examples
    --------
    >>> cuts(600)
    [(0, 256), (256, 512), (512, 600)]
    >>> len(cuts(10**5)), cuts(10**7)[1]
    (64, (65536, 131072))
    """
    length = min(CHUNK, max(SMALLEST, -(-size // PARTS)))
    return [(start, min(start + length, size)) for start in range(0, size, length)]
