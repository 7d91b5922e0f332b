"""What the arguments of attention must be, checked before any work."""

import math

import numpy as np

from numformer.checks import check_array, check_number
from numformer.functional.attention.masks import AttentionPattern


def check_attention(q, k, pattern, scale, slopes=None, bias=None, softcap=None,
                    name="scaled_dot_product_attention"):
    """Check all that the scores depend on, and return their scale as a float.

    The scale is 1 / sqrt(D) unless given. `name` is the function that the messages name.
    """
    sizes = check_array(name, "q", q, "(B, H, T, D)")
    B, H, T, D = sizes["B"], sizes["H"], sizes["T"], sizes["D"]
    sizes = check_array(name, "k", k, "(B, G, S, D)", q.dtype, B=B, D=D)
    G, S = sizes["G"], sizes["S"]
    if not isinstance(pattern, AttentionPattern):
        raise TypeError(
            f"{name}: pattern must be an AttentionPattern, but is {type(pattern).__name__}; "
            "pass a mask of bool as AttentionPattern(mask=mask).")
    if 0 in q.shape or 0 in k.shape or H % G:
        raise ValueError(
            f"{name}: q of shape {q.shape} and k of shape {k.shape}: no axis may be empty, and "
            f"the G={G} key-value heads must divide the H={H} query heads.")
    pattern.check(B, H, T, S)
    if slopes is not None:
        check_array(name, "slopes", slopes, "(H,)", H=H)
        if slopes.dtype.kind == "c":
            raise TypeError(
                f"{name}: slopes are constants and must be real, but are {slopes.dtype}.")
    if bias is not None:
        check_array(name, "bias", bias, "(H, R)", q.dtype, H=H, R=T + S - 1)
    for option, value in (("scale", scale), ("softcap", softcap)):
        if value is not None:
            check_number(name, option, value, above=0)
            if not float(np.finfo(q.dtype).tiny) <= value <= float(np.finfo(q.dtype).max):
                raise ValueError(f"{name}: {option}={value} is out of the range of {q.dtype}.")
    return 1 / math.sqrt(D) if scale is None else float(scale)


def check_values(v, k, name="scaled_dot_product_attention"):
    """Check that there is one value for every key; its width may be another one."""
    B, G, S, _ = k.shape
    check_array(name, "v", v, "(B, G, S, D_V)", k.dtype, B=B, G=G, S=S)
    if v.shape[-1] == 0:
        raise ValueError(f"{name}: v has shape {v.shape}, but no axis may be empty.")
