"""The weights of a decoder as a table of addresses: one row for each block, 0 for what is absent.

A product has three columns, one after the other: its panels, their scale and its bias.
"""

NAMES = (
    "norm1_weight", "norm1_bias", "heads", "query_norm_weight", "key_norm_weight", "output",
    "norm2_weight", "norm2_bias", "gate", "hidden", "down")
FINAL = ("norm_weight", "norm_bias", "logits")                # behind the last block
PRODUCTS = ("heads", "output", "gate", "hidden", "down", "logits")
(NORM1_WEIGHT, NORM1_BIAS, HEADS, _, _, QUERY_NORM_WEIGHT, KEY_NORM_WEIGHT, OUTPUT, _, _,
 NORM2_WEIGHT, NORM2_BIAS, GATE, _, _, HIDDEN, _, _, DOWN, _, _) = range(21)
EPSILON1, EPSILON2, QUERY_EPSILON, KEY_EPSILON = range(4)
FINAL_WEIGHT, FINAL_BIAS, LOGITS = range(3)


def addresses(parts, names=NAMES):
    """The columns of some parts: arrays or, for products, `Panels`; None for what is absent."""
    found = []
    for name, part in zip(names, parts, strict=True):
        if name in PRODUCTS:
            found += [0, 0, 0] if part is None else [
                array.ctypes.data for array in (part.numbers, part.scale, part.bias)]
        else:
            found.append(0 if part is None else part.ctypes.data)
    return found
