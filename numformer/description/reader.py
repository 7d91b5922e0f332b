"""Boxes and stacks of layers: what models describe themselves with."""

from itertools import groupby

from numformer.description.parts import Architecture, Box, Row, Stack

# what several models have in their diagrams: a shape, inputs, a name, equations of gradients
VECTORS, TOKENS, MASKED = ("B", "T", "C"), "tokens (B, T)", "Masked self-attention"
OF_TOKEN = (r"dx_t = dy\;\mathrm{at\ the\ token,\ else}\;0",)
OF_COSINE = (r"d\hat{u} = ds\,\hat{v}",
             r"du = (d\hat{u} - \hat{u}\,(\hat{u} \cdot d\hat{u})) / |u|")
SIZES = {"C": "d_model", "H": "n_heads", "G": "n_kv_heads", "D": "head_width", "F": "hidden_width",
         "E": "n_experts", "V": "vocab_size"}


class Reader:
    """Turns the layers of one model into boxes, and notes what its letters mean.

    A model's `describe_model` calls `sizes_of`, `letter` and `at_most` for its sizes, `boxes` for
    its layers, `stacks` for its blocks, `function` for what has no layer, and `architecture` at the
    end.

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
        layers = model.named_layers() if hasattr(model, "named_layers") else ()
        self._names = {id(layer): name for name, layer in layers}

    def letter(self, name, size):
        """The letter for a size; the number itself where the letter has another one already."""
        return name if self.sizes.setdefault(name, size) == size else size

    def at_most(self, name, size):
        """Note that the size of this letter is given by the input, up to a limit."""
        self.sizes[name] = f"up to {size:,}"

    def sizes_of(self, config):
        """Note the sizes that the config of a Transformer has."""
        if getattr(config, "context_length", None):
            self.at_most("T", config.context_length)
        usual = {"n_kv_heads": (None, getattr(config, "n_heads", None)), "n_experts": (None, 1)}
        for letter, name in SIZES.items():
            if getattr(config, name, None) not in usual.get(name, (None,)):
                self.letter(letter, getattr(config, name))

    def architecture(self, *columns, joint=()):
        """The `Architecture` of these columns, with the sizes that were noted."""
        return Architecture(columns, tuple(joint), self.sizes)

    def boxes(self, shape, *layers, **changes):
        """Boxes of layers whose outputs have this shape, without those that do nothing."""
        return tuple(self.box(shape, layer, **changes) for layer in layers
                     if layer is not None and getattr(layer, "drawn", True))

    def box(self, shape, layer, **changes):
        """The box of a layer or Parameter; `changes` replace what is read from it."""
        about = layer.describe()
        if not about.gradient:
            raise TypeError(f"{type(layer).__name__} is in a diagram, but describes no gradient; "
                            "give it a method describe() that returns a Description with one, as "
                            "Linear has in layers/linear.py.")
        new, tied = self._new_parameters(layer)
        page = page_of(type(layer if hasattr(layer, "forward") else self.model))
        box = Box(about.name, about.sizes, shape, new, self._names.get(id(layer), ""), page,
                  equations(about.gradient), tied=tied, recurrent=about.recurrent)
        return box._replace(**changes)

    def function(self, shape, name, code, detail="", gradient=()):
        """The box of what a function, or a class without a layer for it, computes."""
        return Box(name, detail, shape, 0, "", page_of(code), equations(gradient))

    def stacks(self, blocks, attention="Self-attention", shape=VECTORS):
        """Runs of equal blocks.

        Parameters
        ----------
        blocks : list of Layer
        attention : str
            The name of their attention to their own input.
        shape : tuple
            Of their outputs.

        Returns
        -------
        list of Stack
        """
        shared = self._shared(blocks)
        # all blocks are read, so that all of their parameters are counted
        read = [self.block(block, attention, shape) for block in blocks]
        return stacked(read, shared)

    def block(self, block, attention="Self-attention", shape=VECTORS):
        """The parts of the next block; read twice where it is the wanted one."""
        return self.numbered(lambda reader: block.describe_block(reader, shape, attention))

    def numbered(self, wire):
        """The parts ``wire(reader)`` of the next block; read twice where it is the wanted one."""
        self.n_blocks += 1
        if self.n_blocks == self.wanted:
            single = Reader(self.model)
            single.sizes, single.expanded = self.sizes, True
            self.single = wire(single)
        return wire(self)

    def parts(self, box, layer):
        """The box of a layer; or the boxes of its parts, in a block that is drawn by itself."""
        if not self.expanded:
            return box,
        again = Reader(self.model)                    # the box has counted the parameters
        again.sizes = self.sizes
        return layer.describe_parts(again, box)

    def _new_parameters(self, layer):
        """How many parameters of a layer no box has had; and whether all of them are tied."""
        found = layer.parameters() if hasattr(layer, "parameters") else [layer]
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
    >>> a, b = ((Box(name, "", (), 1, "", "", ()),) for name in "ab")
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


def images_of(config):
    """What a column of images begins with."""
    side = config.image_size
    return f"images (B, {side}, {side}, {config.channels})"


def equations(gradient):
    r"""Lines of mathtext with their dollar signs; words stay as they are.

    Examples
    --------
    >>> equations((r"dx = dy\,W^\top", "no gradient"))
    ('$dx = dy\\,W^\\top$', 'no gradient')
    """
    return tuple(line if "$" in line or line.startswith("no gradient") else f"${line}$"
                 for line in gradient)


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
