"""The width of a head."""

from numformer.checks import check_divides, check_whole


def check_head_width(owner, d_model, n_heads, d_head=None):
    """Check the sizes of heads, and return D: `d_head`, or C / H where it is None.

    Examples
    --------
    >>> check_head_width("demo", 8, 2), check_head_width("demo", 10, 4, d_head=3)
    (4, 3)
    """
    if d_head is None:
        check_divides(owner, "d_model", d_model, "n_heads", n_heads)
        return d_model // n_heads
    for name, size in (("d_model", d_model), ("n_heads", n_heads), ("d_head", d_head)):
        check_whole(owner, name, size)
    return d_head
