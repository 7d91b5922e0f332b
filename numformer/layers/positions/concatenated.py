"""Concatenated positions: the vector of a position appended to the token, not added to it."""

import numpy as np

from numformer.checks import check_array
from numformer.description import Description
from numformer.layers.dropout import Identity
from numformer.layers.linear import Linear
from numformer.layers.positions.added import AddedPositions
from numformer.parameter import Layer


class ConcatenatedPositions(Layer):
    r"""Append the vector of its position to every token: (B, T, C) becomes (B, T, C + P).

    .. math:: y_t = \mathrm{concat}(x_t, p_t), \qquad
              \text{or, with a projection,} \quad y_t = \mathrm{concat}(x_t, p_t)\, W

    No coordinate holds both token and position, but everything that follows is wider: a square
    projection of width C + P has ((C + P) / C)^2 times the weights. Adding is the same as
    concatenating and then projecting from C + P to C by a matrix whose upper and lower parts are
    both the identity. In a model with ``positions="concatenated_learned"`` that matrix is trained.

    Parameters
    ----------
    positions : AddedPositions
        Such as `SinusoidalPositions` or `LearnedPositions`; P is their width.
    projection : Linear, optional
        From C + P to another width; none unless given.

    Raises
    ------
    TypeError
        If `positions` or the projection is something else.

    Examples
    --------
    >>> from numformer.layers import SinusoidalPositions
    >>> ConcatenatedPositions(SinusoidalPositions(2))(np.full((1, 2, 3), 7.0)).round(2)
    array([[[7.  , 7.  , 7.  , 0.  , 1.  ],
            [7.  , 7.  , 7.  , 0.84, 0.54]]])
    """

    def __init__(self, positions, projection=None):
        if not isinstance(positions, AddedPositions):
            raise TypeError("ConcatenatedPositions: positions must be a layer of vectors, such as "
                            f"SinusoidalPositions or LearnedPositions, but is {positions!r}.")
        if not (projection is None or isinstance(projection, Linear)):
            raise TypeError(f"ConcatenatedPositions: projection must be a Linear or None, but is "
                            f"{projection!r}.")
        self.positions, self.projection = positions, projection or Identity()

    def forward(self, x, start=0):
        """Append positions to tokens; `start` as in `AddedPositions.forward`."""
        sizes = check_array("ConcatenatedPositions", "x", x, "(B, T, C)", self.positions.dtype)
        B, T, C = sizes["B"], sizes["T"], sizes["C"]
        p, saved_positions = self.positions.vectors(T, start, x.real.dtype)
        p = np.broadcast_to(p, (B, T, self.positions.width))
        y = np.concatenate([x, p], axis=-1)                           # (B, T, C + P)
        y, saved_projection = self.projection.forward(y)

        saved = (saved_positions, C, saved_projection)
        return y, saved

    def backward(self, dy, saved):
        saved_positions, C, saved_projection = saved

        # y = projection(concatenate([x, p]))
        dy = self.projection.backward(dy, saved_projection)
        dx, dp = dy[..., :C].copy(), dy[..., C:]

        # p = positions.vectors(T, start)
        self.positions.vectors_backward(dp, saved_positions)
        return dx

    def describe(self):
        return Description("Concatenated positions", gradient=(
            r"[dx, dp] = dy\,W^\top", r"dW = [x, p]^\top dy"))
