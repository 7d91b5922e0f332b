"""The head of a language model whose logits have a bound."""

from numformer.checks import check_number
from numformer.functional import soft_cap, soft_cap_backward
from numformer.layers.linear import LMHead


class SoftCappedLMHead(LMHead):
    r"""Logits between -c and c: those of an `LMHead` through `soft_cap`.

    .. math:: y = c \tanh(z / c), \qquad z = x W^\top, \qquad
              \bar{z} = \bar{y} \left( 1 - (y / c)^2 \right)

    Parameters
    ----------
    *arguments
        Those of `LMHead`.
    cap : float above 0
        c.

    Raises
    ------
    ValueError, TypeError
        If the cap is not above 0, `weight` is not a matrix Parameter, or `x` does not end in C.

    References
    ----------
    Gemma Team (2024), "Gemma 2", section 2, "Logit soft-capping".

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.parameter import Parameter
    >>> SoftCappedLMHead(Parameter(np.eye(2)), cap=30.0)(np.array([[1.0, 1000.0]])).round(3)
    array([[ 1., 30.]])
    """

    def __init__(self, *arguments, cap):
        check_number("SoftCappedLMHead", "cap", cap, above=0)
        super().__init__(*arguments)
        self.cap = float(cap)

    def forward(self, x):
        z, saved_logits = super().forward(x)                          # (..., V)
        y, saved_cap = soft_cap(z, self.cap)

        saved = (saved_logits, saved_cap)
        return y, saved

    def backward(self, dy, saved):
        saved_logits, saved_cap = saved

        # y = soft_cap(head(x), cap)
        return super().backward(soft_cap_backward(dy, saved_cap), saved_logits)

    def describe(self):
        return super().describe()._replace(name="LM head, soft-capped", gradient=(
            r"dz = dy\,(1 - (y / c)^2)", r"dx = dz\,E", r"dE = dz^\top x"))
