"""What all optimizers share: long vectors of parameters, their chunks, and the moments of a run.

The rules themselves, AdamW first, are in `numformer.training.optimizers`. This page is about speed:
a rule such as AdamW's is the same for every number, so all parameters of a group are put into one
long vector, and the rule runs over pieces of it that fit into a processor's cache.

    layer1.weight  layer1.bias  layer2.weight ...      parameters, each a view of
    [------------------------------------------]       the vector `flat.data`; `flat.grad` likewise
    [--chunk--][--chunk--][--chunk--][--chunk--]       `update` moves one chunk at a time
"""

from typing import NamedTuple

import numpy as np

from numformer.backend import run_by_shares
from numformer.flat_parameters import CHUNK, FlatParameters, cuts
from numformer.training.clipping import norm_of
from numformer.underflow import underflow_is_zero


class Chunk(NamedTuple):
    """A part of the vectors of a group, which moves by itself."""

    group: str
    vector: int                                                       # its index in `flat`
    start: int
    stop: int
    shape: tuple                                                      # in which `update` gets it

    def of(self, vector, offset=0):
        """The view of a vector (N,) that begins at number `offset` of the whole one."""
        return vector[self.start - offset:self.stop - offset].reshape(self.shape)


def joined(chunks):
    """The same numbers in fewer chunks: neighbours together, as far as they fit into a cache."""
    found = []
    for chunk in chunks:
        last = found[-1] if found else None
        if (last and (last.vector, last.stop) == (chunk.vector, chunk.start)
                and chunk.stop - last.start <= CHUNK and len(last.shape) == len(chunk.shape) == 1):
            found[-1] = last._replace(stop=chunk.stop, shape=(chunk.stop - last.start,))
        else:
            found.append(chunk)
    return found


def bounds_of(chunks, n_vectors):
    """(start, stop) of some neighbouring chunks in each vector; (0, 0) where there are none."""
    found = []
    for k in range(n_vectors):
        own = [chunk for chunk in chunks if chunk.vector == k]
        found.append((own[0].start, own[-1].stop) if own else (0, 0))
    return found


class Optimizer:
    """What all optimizers share: the parameters, and their moments, which a checkpoint keeps.

    The parameters become views of a few long vectors, one for each group, and so do their moments.
    A subclass has an ``update(group, data, grad, learning_rate, grad_scale, *moments)``, which
    changes a chunk of these vectors in place.

    Parameters
    ----------
    model : Layer
        All its parameters take part, but those that are frozen; a tied one once.

    Raises
    ------
    ValueError
        If all parameters are frozen.
    """

    moments = ()                                                      # their names

    def __init__(self, model):
        everything = dict(model.named_parameters())
        self.parameters = {name: part for name, part in everything.items() if part.trained}
        if everything and not self.parameters:
            raise ValueError(f"{type(self).__name__}: no parameter of this {type(model).__name__} "
                             "is trained; unfreeze some of them.")
        self.steps = 0
        members = {}
        for name, parameter in self.parameters.items():
            members.setdefault((self.group_of(name), parameter.data.dtype), {})[name] = parameter
        self.flat = [FlatParameters(parameters) for parameters in members.values()]
        self.chunks = [Chunk(group, k, *part) for k, (group, _) in enumerate(members)
                       for part in self.parts_of(group, self.flat[k])]
        # For each of `flat`, its moments by name, (N,) each, and where they begin: see `keep`
        self.state = [{name: np.zeros_like(flat.data) for name in self.moments_of(group)}
                      for (group, _), flat in zip(members, self.flat)]
        self.begins = [0] * len(self.flat)
        self._bind()

    def group_of(self, name):
        """The group of a parameter: parameters of one group move by the same rule."""
        return "all"

    def moments_of(self, group):
        """Names of the moments of a group's parameters."""
        return self.moments

    def parts_of(self, group, flat):
        """(start, stop, shape) of the chunks of a group."""
        return [(start, stop, (stop - start,)) for start, stop in cuts(flat.data.size)]

    def keep(self, chunks):
        """Move only these chunks from now on, which are neighbours in each vector.

        Other moments are forgotten.

        Several processes share an optimizer in this way: each keeps the moments of its own chunks.
        """
        for k, (start, stop) in enumerate(bounds_of(chunks, len(self.flat))):
            first = self.begins[k]
            self.state[k] = {name: vector[start - first:stop - first].copy()
                             for name, vector in self.state[k].items()}
            self.begins[k] = start
        self.chunks = list(chunks)
        self._bind()

    def _bind(self):
        """Find the group and the arrays of each chunk, once: `update` gets them in every step."""
        self._bound = [(chunk.group, [
            chunk.of(self.flat[chunk.vector].data), chunk.of(self.flat[chunk.vector].grad),
            *(chunk.of(vector, self.begins[chunk.vector])
              for vector in self.state[chunk.vector].values())])
            for chunk in joined(self.chunks)]
        self._gradients = [chunk.of(self.flat[chunk.vector].grad) for chunk in self.chunks]

    def zero_grad(self):
        """Set the gradients of all parameters to zero."""
        for flat in self.flat:
            flat.adopt()                              # arrays that were replaced meanwhile
            flat.grad.fill(0)

    def gradient_norm(self):
        """The norm of all gradients as one vector, summed in float64 chunk by chunk."""
        return norm_of(self._gradients)

    @underflow_is_zero
    def step(self, learning_rate, grad_scale=1.0):
        """Move every parameter by its gradient.

        Parameters
        ----------
        learning_rate : float
        grad_scale : float
            Multiplies all gradients: the result of `clip_factor`.
        """
        self.steps += 1
        learning_rate, grad_scale = float(learning_rate), float(grad_scale)
        for flat in self.flat:
            flat.adopt()

        def move(bound):
            group, (data, grad, *moments) = bound
            self.update(group, data, grad, learning_rate, grad_scale, *moments)

        run_by_shares(move, self._bound)

    def state_dict(self, whole=lambda k, vector: vector):
        """Copies of the moments, by ``moment.parameter``.

        Parameters
        ----------
        whole : callable
            ``whole(k, vector)``: where this process keeps only a part of the moments of vector k
            (see `keep`), the whole, gathered from all processes; or None, to leave it out.
        """
        found = {}
        for k, (flat, moments) in enumerate(zip(self.flat, self.state)):
            for moment, vector in moments.items():
                vector = whole(k, vector)
                if vector is not None:
                    found |= {f"{moment}.{name}": view.copy()
                              for name, view in flat.views(vector).items()}
        return found

    def load_state_dict(self, arrays, steps):
        """Load moments and the number of steps taken.

        Raises
        ------
        ValueError
            If names or shapes do not fit.
        """
        mine = {f"{moment}.{name}": parameter.data.shape
                for flat, moments in zip(self.flat, self.state) for moment in moments
                for name, parameter in flat.parameters.items()}
        fits = mine.keys() == arrays.keys()
        if not fits or any(shape != arrays[name].shape for name, shape in mine.items()):
            raise ValueError(f"{type(self).__name__}: the moments of another optimizer or model; "
                             f"{len(arrays)} came, {len(mine)} belong here.")
        for flat, moments, first in zip(self.flat, self.state, self.begins):
            for moment, vector in moments.items():
                whole = np.empty_like(flat.data)
                for name, view in flat.views(whole).items():
                    view[...] = arrays[f"{moment}.{name}"]
                vector[...] = whole[first:first + len(vector)]
        self.steps = steps
