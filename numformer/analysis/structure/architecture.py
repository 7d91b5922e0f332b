"""The architecture of a model, read from its layers: boxes in the order in which data pass them."""

from numformer.checks import check_whole
from numformer.description import Column, Reader
from numformer.models import KINDS


def architecture(model, block=None):
    """Read the architecture of a model from its layers.

    Parameters
    ----------
    model : a model of `numformer.models.KINDS`, or the config of one
        From a config, a model of any size is built with shapes alone, without memory.
    block : int, optional
        Read one block alone, with the parts of its layers: 1 is the first that data pass.

    Returns
    -------
    Architecture

    Raises
    ------
    TypeError
        If it is another layer, or none.
    ValueError
        If there is no such block.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> found = architecture(CONFIGS["gpt2"])
    >>> column, = found.columns
    >>> [type(part).__name__ for part in column.parts], column.parts[2].repeat
    (['Box', 'Box', 'Stack', 'Box', 'Box'], 12)
    >>> [(box.name, box.shape) for branch in column.parts[2].parts for box in branch.parts][1:3]
    [('Masked self-attention', ('B', 'T', 'C')), ('LayerNorm', ('B', 'T', 'C'))]
    >>> found.parameters, found.sizes["C"]
    (124439808, 768)
    """
    model = built(model)
    reader = Reader(model, block)
    found = model.describe_model(reader)
    if block is None:
        return found
    check_whole("architecture", "block", block)
    if reader.single is None:
        raise ValueError(f"architecture: block={block}, but {type(model).__name__} has "
                         f"{reader.n_blocks or 'no'} blocks; " + (
                             f"give 1 .. {reader.n_blocks}." if reader.n_blocks
                             else "leave it out."))
    return reader.architecture(Column("x", reader.single))


def built(model):
    """The model itself, or the one of a config, with shapes only."""
    if hasattr(model, "describe_model"):
        return model
    for kind, its_config in KINDS.values():
        if type(model) is its_config:
            return kind(model, rng=None)
    if hasattr(model, "forward"):
        raise TypeError(f"architecture: {type(model).__name__} has no diagram of its own; give it "
                        "a method describe_model (see numformer/ADDING_A_MODEL.md), or draw the "
                        "layer with computation_graph.")
    raise TypeError(f"architecture: {type(model).__name__} is neither a model nor the config of "
                    "one in numformer.models.KINDS.")
