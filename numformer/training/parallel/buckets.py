"""Which gradients are finished while the backward still runs: those of the blocks that it has left.

The backward goes through the blocks from the last to the first. Once it has left a block, nothing
is added to the gradients of the block's own parameters: they can be sent at once.
"""

from contextlib import contextmanager

from numformer.parameter import Layer, Parameter

REST = ""                                             # the bucket of what belongs to no block


def blocks_of(model):
    """The outermost layers of a model's lists, by name: its blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import Linear
    >>> model = Layer()
    >>> model.blocks = [Linear(2, 2, np.random.default_rng(0)) for _ in range(2)]
    >>> list(blocks_of(model))
    ['blocks.0', 'blocks.1']
    """
    found = {}
    for name, layer in model.named_layers():
        inside = any(name.startswith(f"{block}.") for block in found)
        if name.rpartition(".")[2].isdigit() and not inside:
            found[name] = layer
    return found


def buckets_of(model):
    """The bucket of every parameter: the name of its block, or `REST`.

    Parameters that two blocks share, or a block and another layer, are in the rest.

    Returns
    -------
    dict of str to str
        By the name of the parameter.
    """
    blocks, owners = blocks_of(model), {}
    whole = {id(layer): name for name, layer in blocks.items()}
    _find(model, REST, whole, owners)
    return {name: owners[id(parameter)].pop() if len(owners[id(parameter)]) == 1 else REST
            for name, parameter in model.named_parameters()}


def _find(part, bucket, blocks, owners):
    """Note in `owners` the buckets of each parameter in the tree."""
    if isinstance(part, Parameter):
        owners.setdefault(id(part), set()).add(bucket)
    elif isinstance(part, Layer):
        for child in vars(part).values():
            _find(child, blocks.get(id(part), bucket), blocks, owners)
    elif isinstance(part, (dict, list, tuple)):
        for child in part.values() if isinstance(part, dict) else part:
            _find(child, bucket, blocks, owners)


@contextmanager
def watched(blocks, finished):
    """Inside, call `finished(name)` when a backward has left one of the blocks for the last time.

    A block that ran forward n times is finished after n calls of its backward. All forwards must
    come before the first backward. To count them, `forward` and `backward` of the blocks are
    replaced by others in this time.
    """
    calls = {}

    def counted(name, function, change):
        def call(*arguments, **options):
            result = function(*arguments, **options)
            calls[name] = calls.get(name, 0) + change
            if change < 0 and calls[name] == 0:
                finished(name)
            return result
        return call

    for name, block in blocks.items():
        block.forward = counted(name, block.forward, 1)
        block.backward = counted(name, block.backward, -1)
    try:
        yield
    finally:
        for block in blocks.values():
            del block.forward, block.backward
