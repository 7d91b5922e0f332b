"""From vectors to heads with any linear map, norm and positions: what `head_projections` lacks."""

from numformer.functional.head_projections import join_heads, split_heads
from numformer.layers.dropout import Identity
from numformer.layers.linear import Linear
from numformer.layers.normalization import RMSNorm


def projects_at_once(attention):
    """Whether `head_projections` knows all parts: by class, as a subclass may do anything."""
    one, two = attention.query_norm, attention.key_norm
    return (attention.positions.only_rotates and attention.d_value == attention.d_head
            and all(type(part) is Linear for part in (
                attention.query, attention.key, attention.value))
            and (type(one) is type(two) is Identity
                 or type(one) is type(two) is RMSNorm and one.epsilon == two.epsilon
                 and one.epsilon_inside and two.epsilon_inside))


def encoded_heads(x, linear, norm, positions, d_head, start=0):
    r"""Normalized heads of x that carry their positions, from `start` on.

    .. math:: h = \mathrm{encode}(\mathrm{norm}(\mathrm{split}(x W + b)))

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    linear, norm : Layer
        A map to (B, T, heads D), and a norm over D or `Identity`.
    positions : AttentionPositions
    d_head : int
        D.
    start : int

    Returns
    -------
    h : ndarray, shape (B, heads, T, D)
    saved : tuple
        For `encoded_heads_backward`.
    """
    h, saved_linear = linear.forward(x)                               # (B, T, heads D)
    h, saved_norm = norm.forward(split_heads(h, d_head))              # (B, heads, T, D)
    h, saved_positions = positions.encode(h, start)

    saved = (saved_linear, saved_norm, saved_positions)
    return h, saved


def encoded_heads_backward(dh, saved, linear, norm, positions):
    """The gradient of x; those of the parameters are added."""
    saved_linear, saved_norm, saved_positions = saved

    # h = encode(norm(split_heads(linear(x))))
    dh = positions.encode_backward(dh, saved_positions)
    return linear.backward(join_heads(norm.backward(dh, saved_norm)), saved_linear)
