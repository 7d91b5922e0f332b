"""What weights of fewer bits cost: the model as it is with them, to be evaluated like any other."""

from contextlib import contextmanager

from numformer.checks import check_choice
from numformer.functional.quantization import SMALLER_WEIGHTS, round_weight
from numformer.layers import Linear, LMHead
from numformer.layers.token_step import TokenStep, UnknownPart
from numformer.parameter import Parameter


@contextmanager
def rounded_weights(model, weights):
    """Inside a with statement, a decoder has the matrices that ``generate(weights=...)`` reads.

    They are rounded in place, and come back at the end as they were, to the bit. A head that is
    tied to the embedding is rounded alone: a token's vector is looked up, not multiplied.

    Parameters
    ----------
    model : Decoder
        Nothing else may use its parameters meanwhile.
    weights : "bfloat16" or "int8"

    Raises
    ------
    ValueError
        If `weights` is something else; `UnknownPart` if the compiled step does not know the model.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8)
    >>> model, ids = Decoder(config, np.random.default_rng(0)), np.array([[1, 2, 3]])
    >>> before = model(ids)
    >>> with rounded_weights(model, "int8"):
    ...     inside = model(ids)
    >>> bool(0 < abs(inside - before).max() < 0.01), np.array_equal(model(ids), before)
    (True, True)
    """
    check_choice("rounded_weights", "weights", weights, SMALLER_WEIGHTS)
    parts = getattr(model, "blocks", []), getattr(model, "norm", None), getattr(model, "head", None)
    if not TokenStep.knows(*parts):
        raise UnknownPart("rounded_weights: the compiled step, which reads such weights, does not "
                          f"know a part of this {type(model).__name__}, or is off.")
    linears = [layer for block in model.blocks for _, layer in block.named_layers()
               if type(layer) is Linear]
    before, head = [layer.weight.data.copy() for layer in linears], model.head
    try:
        for layer in linears:
            layer.weight.data[...] = round_weight(layer.weight.data, weights)
        model.head = LMHead(Parameter(round_weight(head.weight.data.T, weights).T))
        yield
    finally:
        model.head = head
        for layer, data in zip(linears, before):
            layer.weight.data[...] = data
