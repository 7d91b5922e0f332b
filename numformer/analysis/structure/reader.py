"""Read boxes and stacks from layers: their names, shapes, parameters and pages."""

from itertools import groupby

from numformer.analysis.structure.expanded import expanded
from numformer.analysis.structure.layer_labels import ATTENTION, label_of
from numformer.analysis.structure.parts import Box, Residual, Row, Stack
from numformer.layers import Dropout, Identity, ParallelBlock, PlainBlock
from numformer.parameter import Layer, Parameter

VECTORS = ("B", "T", "C")                                     # the shape of a residual stream


class Reader:
    """Turns the layers of one model into boxes.

    Parameters
    ----------
    model : Layer
    wanted : int, optional
        The number of a block that is also read by itself, with the parts of its layers.

    Attributes
    ----------
    sizes : dict
        As in `Architecture`: the first number that came with a letter.
    n_blocks : int
        Blocks read so far.
    single : tuple or None
        The parts of the wanted block.
    """

    def __init__(self, model, wanted=None):
        self.model, self.sizes, self._counted = model, {}, set()
        self.wanted, self.n_blocks, self.single, self.expanded = wanted, 0, None, False
        layers = model.named_layers() if isinstance(model, Layer) else ()
        self._names = {id(layer): name for name, layer in layers}

    def letter(self, name, size):
        """The letter for a size; the number itself where the letter has another one already."""
        return name if self.sizes.setdefault(name, size) == size else size

    def at_most(self, name, size):
        """Note that the size of this letter is given by the input, up to a limit."""
        self.sizes[name] = f"up to {size:,}"

    def boxes(self, shape, *layers, **changes):
        """Boxes of layers whose outputs have this shape, without those that do nothing."""
        return tuple(self.box(shape, layer, **changes) for layer in layers
                     if layer is not None and not isinstance(layer, (Identity, Dropout)))

    def box(self, shape, layer, **changes):
        """The box of a layer or Parameter; `changes` replace what is read from it."""
        name, detail = label_of(layer)
        owner = self.model if isinstance(layer, Parameter) else layer
        kind = "Parameter" if isinstance(layer, Parameter) else type(layer).__name__
        if kind == "Linear" and layer.bias is None:
            kind = "Linear without bias"
        new, tied = self._new_parameters(layer)
        box = Box(name, detail, shape, new, self._names.get(id(layer), ""), page_of(type(owner)),
                  kind, tied=tied)
        return box._replace(**changes)

    def function(self, shape, name, function, detail=""):
        """The box of a function without parameters."""
        return Box(name, detail, shape, 0, "", page_of(function), function.__name__)

    def method(self, shape, name, owner, detail=""):
        """The box of a step that a class computes without a layer for it."""
        return Box(name, detail, shape, 0, "", page_of(owner), name)

    def stacks(self, blocks, attention="Self-attention", shape=VECTORS, windows=None):
        """Runs of equal blocks.

        Parameters
        ----------
        blocks : list of Layer
        attention : str
            The name of their attention to their own input.
        shape : tuple
            Of their outputs.
        windows : list of (left, right) or None, optional
            That of each block, where the blocks do not hold it.

        Returns
        -------
        list of Stack
        """
        shared = self._shared(blocks)
        # all blocks are read, so that all of their parameters are counted
        read = [self.block(block, attention, shape, window)
                for block, window in zip(blocks, windows or [None] * len(blocks))]
        return stacked(read, shared)

    def block(self, block, attention="Self-attention", shape=VECTORS, window=None):
        """The parts of a Transformer block, whichever way its branches are wired."""
        return self.numbered(lambda reader: reader._wired(block, attention, shape, window))

    def numbered(self, wire):
        """The parts ``wire(reader)`` of the next block; read twice where it is the wanted one."""
        self.n_blocks += 1
        if self.n_blocks == self.wanted:
            single = Reader(self.model)
            single.sizes, single.expanded = self.sizes, True
            self.single = wire(single)
        return wire(self)

    def _wired(self, block, attention, shape, window):
        series = [(*self.boxes(shape, branch.input_norm),
                   *self.parts(self._sublayer(branch, attention, shape, window), branch.sublayer),
                   *self.boxes(shape, branch.output_norm)) for branch in block.branches.values()]
        if isinstance(block, ParallelBlock):
            return Residual((Row(tuple(series)),)),
        parts = []
        for branch, boxes in zip(block.branches.values(), series):
            parts += boxes if isinstance(block, PlainBlock) else [Residual(boxes)]
            parts += self.boxes(shape, branch.sum_norm)
        return tuple(parts)

    def parts(self, box, layer):
        """The box of a layer; or the boxes of its parts, in a block that is drawn by itself."""
        if not self.expanded:
            return box,
        again = Reader(self.model)                    # the box has counted the parameters
        again.sizes = self.sizes
        return expanded(box, layer, again)

    def _sublayer(self, branch, attention, shape, window):
        box = self.box(shape, branch.sublayer)
        if branch.reads_memory:
            return box._replace(name="Cross-attention", reads_memory=True)
        if box.name != ATTENTION:
            return box
        left, right = getattr(branch, "window", window) or (None, None)
        detail = box.detail
        if left is not None:
            detail += (f", window of {left + 1:,}" if attention.startswith("Masked")
                       else f", window of {left + right + 1:,}")
        return box._replace(name=attention, detail=detail)

    def _new_parameters(self, layer):
        """How many parameters of a layer no box has had; and whether all of them are tied."""
        found = [layer] if isinstance(layer, Parameter) else layer.parameters()
        new = [each for each in found if id(each) not in self._counted]
        self._counted.update(map(id, new))
        return sum(each.data.size for each in new), bool(found) and not new

    def _shared(self, blocks):
        """Boxes of the layers inside attention that several blocks have, with parameters."""
        owners = {}
        for block in blocks:
            for layer in {id(layer): layer for _, layer in block.named_layers()}.values():
                owners.setdefault(id(layer), []).append(layer)
        return tuple(self.box(("H", "T", "T"), found[0]) for found in owners.values()
                     if len(found) > 1 and found[0].parameters())


def stacked(read, shared=()):
    """Stacks of blocks that were read: one where all are equal, or equal in pairs.

    Examples
    --------
    >>> a, b = ((Box(name, "", (), 1, "", "", ""),) for name in "ab")
    >>> [stack.repeat for stack in stacked([a, a, b])], stacked([a, b, a, b])[0].repeat
    ([2, 1], 2)
    """
    keys = [_without_paths(parts) for parts in read]
    if len(read) > 3 and len(read) % 2 == 0 and keys[0] != keys[1] and (
            keys == keys[:2] * (len(read) // 2)):
        return [Stack(len(read) // 2, read[0] + read[1], shared)]
    stacks = []
    for _, equal in groupby(range(len(read)), key=keys.__getitem__):
        equal = list(equal)
        stacks.append(Stack(len(equal), read[equal[0]]))
    return [stacks[0]._replace(shared=shared), *stacks[1:]]


def page_of(code):
    """The file of a class or function, below ``numformer/``.

    Examples
    --------
    >>> from numformer.layers import LayerNorm
    >>> page_of(LayerNorm)
    'layers/normalization.py'
    """
    return code.__module__.removeprefix("numformer.").replace(".", "/") + ".py"


def _without_paths(parts):
    """What two blocks have in common that are equal: all but the names of their layers."""
    return tuple(part._replace(path="") if isinstance(part, Box) else (
        type(part).__name__, tuple(map(_without_paths, part.series if isinstance(part, Row)
                                       else (part.parts,)))) for part in parts)
