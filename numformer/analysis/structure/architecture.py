"""The architecture of a model, read from its layers: boxes in the order in which data pass them."""

from itertools import groupby
from typing import NamedTuple

from numformer.analysis.structure.layer_labels import ATTENTION, label_of
from numformer.layers import Dropout, Identity, ParallelBlock
from numformer.models.bert import Bert
from numformer.models.decoder import Decoder
from numformer.models.encoder_decoder import EncoderDecoder
from numformer.models.vision_transformer import VisionTransformer
from numformer.parameter import Layer, Parameter


class Box(NamedTuple):
    """A layer: its name in words, its sizes, and parameters that no box before it has."""

    name: str
    detail: str
    parameters: int


class Branch(NamedTuple):
    """A residual branch: boxes from x to the sum, then those after the sum."""

    boxes: tuple
    after_sum: tuple
    reads_memory: bool


class Stack(NamedTuple):
    """Equal blocks, `repeat` of them: branches, and boxes of which all blocks share one."""

    repeat: int
    branches: tuple
    parallel: bool
    shared: tuple


class Column(NamedTuple):
    """What data pass, from the input on: boxes and stacks; then heads, next to each other."""

    input: str
    parts: tuple
    heads: tuple


class Architecture(NamedTuple):
    """The columns of a model: the last reads what the first makes, if there are two."""

    columns: tuple

    @property
    def parameters(self):
        """Their number: the sum over all boxes, a block as often as it is repeated."""
        total = 0
        for column in self.columns:
            boxes = [box for head in column.heads for box in head]
            for part in column.parts:
                if isinstance(part, Stack):
                    total += part.repeat * sum(box.parameters for branch in part.branches
                                               for box in branch.boxes + branch.after_sum)
                    boxes += part.shared
                else:
                    boxes.append(part)
            total += sum(box.parameters for box in boxes)
        return total


def architecture(model):
    """Read the architecture of a Transformer from its layers.

    Parameters
    ----------
    model : Decoder, EncoderDecoder, Bert or VisionTransformer, or the config of one
        From a config, a model of any size is built with shapes alone, without memory.

    Returns
    -------
    Architecture

    Raises
    ------
    TypeError
        If it is another model, or none.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> found = architecture(CONFIGS["gpt2"])
    >>> column, = found.columns
    >>> [type(part).__name__ for part in column.parts], column.parts[2].repeat
    (['Box', 'Box', 'Stack', 'Box'], 12)
    >>> [box.name for branch in column.parts[2].branches for box in branch.boxes]
    ['LayerNorm', 'Masked self-attention', 'LayerNorm', 'Feed-forward']
    >>> found.parameters
    124439808
    """
    model = model if isinstance(model, Layer) else _of_config(model)
    read = next((read for kind, read in READERS.items() if isinstance(model, kind)), None)
    if read is None:
        raise TypeError(f"architecture: {type(model).__name__} has no diagram; give a model, or "
                        f"the config, of {', '.join(kind.__name__ for kind in READERS)}.")
    return Architecture(tuple(read(model, set())))


def _of_config(config):
    from numformer.models import KINDS                                # imports this room

    for model, its_config in KINDS.values():
        if type(config) is its_config:
            return model(config, rng=None)
    raise TypeError(f"architecture: {type(config).__name__} is neither a model nor the config of "
                    "one in numformer.models.KINDS.")


def _decoder(m, seen):
    before = _boxes([m.embedding, m.positions, m.embedding_norm], seen)
    blocks, norm = _stacks(m.blocks, seen, "Masked self-attention"), _boxes([m.norm], seen)
    yield Column("tokens (B, T)", (*before, *blocks, *norm), (_boxes([m.head], seen),))


def _encoder_decoder(m, seen):
    before = _boxes([m.embedding, m.input_positions, m.input_norm], seen)
    yield Column("inputs (B, S)", (*before, *_stacks(m.encoder.blocks, seen),
                                   *_boxes([m.encoder.norm], seen)), ())
    before = _boxes([m.embedding, m.output_positions, m.output_norm], seen)
    blocks, norm = _stacks(m.blocks, seen, "Masked self-attention"), _boxes([m.norm], seen)
    yield Column("outputs so far (B, T)", (*before, *blocks, *norm), (_boxes([m.head], seen),))


def _bert(m, seen):
    b = m.backbone
    before = _boxes([b.embedding, b.positions, b.segments, b.norm], seen)
    parts = (*before, *_stacks(b.encoder.blocks, seen), *_boxes([b.encoder.norm], seen))
    heads = (_boxes([m.head], seen), _boxes([m.pooler, m.next_sentence], seen))
    yield Column("tokens (B, T)", parts, tuple(filter(None, heads)))


def _vision_transformer(m, seen):
    before = _boxes([m.patches, m.positions, m.class_token, m.embedding_norm], seen)
    parts = (*before, *_stacks(m.encoder.blocks, seen), *_boxes([m.encoder.norm], seen))
    yield Column("images", parts, (_boxes([m.pooling, m.head], seen),))


READERS = {Decoder: _decoder, EncoderDecoder: _encoder_decoder, Bert: _bert,
           VisionTransformer: _vision_transformer}


def _boxes(layers, seen):
    """The boxes of some layers, without those that do nothing; `seen` holds counted parameters."""
    return tuple(Box(*label_of(layer), _new_parameters(layer, seen)) for layer in layers
                 if layer is not None and not isinstance(layer, (Identity, Dropout)))


def _new_parameters(layer, seen):
    """How many parameters of a layer no box has had."""
    found = [layer] if isinstance(layer, Parameter) else layer.parameters()
    new = [each for each in found if id(each) not in seen]
    seen.update(map(id, new))
    return sum(each.data.size for each in new)


def _stacks(blocks, seen, attention="Self-attention"):
    """Runs of equal blocks; `attention` is what their attention to their own input is called."""
    shared = _boxes(_shared(blocks), seen)
    stacks = []
    # all blocks are read, so that all of their parameters are seen
    for _, equal in groupby([_stack(block, seen, attention) for block in blocks]):
        equal = list(equal)
        stacks.append(equal[0]._replace(repeat=len(equal)))
    return [stacks[0]._replace(shared=shared), *stacks[1:]]


def _shared(blocks):
    """The layers inside attention that several blocks have, and that have parameters."""
    owners = {}
    for block in blocks:
        for layer in {id(layer): layer for _, layer in block.named_layers()}.values():
            owners.setdefault(id(layer), []).append(layer)
    return [found[0] for found in owners.values() if len(found) > 1 and found[0].parameters()]


def _stack(block, seen, attention):
    branches = []
    for branch in block.branches.values():
        boxes = _boxes([branch.input_norm, branch.sublayer, branch.output_norm], seen)
        name = "Cross-attention" if branch.reads_memory else attention
        boxes = tuple(box._replace(name=name) if box.name == ATTENTION else box for box in boxes)
        branches.append(Branch(boxes, _boxes([branch.sum_norm], seen), branch.reads_memory))
    return Stack(1, tuple(branches), isinstance(block, ParallelBlock), ())
