"""How a generation begins: with copies of the weights for the compiled step, or without."""

from numformer.checks import check_choice
from numformer.functional.quantization import SMALLER_WEIGHTS
from numformer.layers.token_step import TokenStep, UnknownPart

LARGEST = 2**30                                       # bytes of weights that are copied unasked


def begun(owner, parts, weights=None):
    """The empty cache of a decoder's (blocks, norm, head) for the compiled step, or None.

    None if the kernel does not know a part, or the weights take more than `LARGEST` bytes. Then the
    layers compute each step; a large model has no memory for copies, and their making would take as
    long as many tokens.

    Raises
    ------
    ValueError
        If `weights` is unknown; `UnknownPart` if it is given for a decoder that the kernel does not
        know.
    """
    if weights is not None:
        check_choice(owner, "weights", weights, SMALLER_WEIGHTS)
    blocks, norm, head = parts
    size = sum(parameter.data.nbytes for part in (*blocks, norm, head)
               for parameter in part.parameters())
    step = None if weights is None and size > LARGEST else TokenStep.of(*parts, weights)
    if step is None and weights is not None:
        raise UnknownPart(f"{owner}: weights={weights!r} needs the compiled step, which does not "
                          "know a part of this model, or is off; leave weights out.")
    return None if step is None else step.begin()
