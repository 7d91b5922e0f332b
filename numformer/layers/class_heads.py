"""The classifier of a Vision Transformer with several class tokens."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description
from numformer.layers.linear import Linear
from numformer.parameter import Layer


class ClassHeads(Layer):
    r"""The mean of K classifiers, each of a class token of its own: (B, T, C) to (B, N).

    .. math:: y = \frac{1}{K} \sum_k (x_k W_k + b_k), \qquad
              \bar{x}_k = \tfrac{1}{K}\, \bar{y} W_k^\top

    The class tokens are the first K vectors. The others get no gradient.

    Parameters
    ----------
    n_tokens : int
        K.
    d_model, n_classes : int
        C and N.
    rng : numpy.random.Generator or None
    bias, std, dtype
        Of the linear maps, as in `Linear`.

    Raises
    ------
    ValueError, TypeError
        If a number is not a whole one above 0, or `x` has fewer than K vectors or another width.

    References
    ----------
    Touvron et al. (2021), "Training Data-Efficient Image Transformers and Distillation through
    Attention", section 4: a class token and a distillation token. The paper adds the outputs of two
    softmaxes; the authors' code has the mean of the logits, as here.

    Examples
    --------
    >>> ClassHeads(2, 4, 3, np.random.default_rng(0))(np.ones((5, 7, 4), np.float32)).shape
    (5, 3)
    """

    def __init__(self, n_tokens, d_model, n_classes, rng, bias=True, std=None, dtype=np.float32):
        check_whole("ClassHeads", "n_tokens", n_tokens)
        self.heads = [Linear(d_model, n_classes, rng, bias, std, dtype) for _ in range(n_tokens)]

    def forward(self, x):
        K, C = len(self.heads), len(self.heads[0].weight.data)
        if check_array("ClassHeads", "x", x, "(B, T, C)", C=C)["T"] < K:
            raise ValueError(f"ClassHeads: x has T={x.shape[1]} vectors, but the first {K} are "
                             f"class tokens; give at least {K}.")
        y, saved_heads = 0, []
        for k, head in enumerate(self.heads):
            logits, saved_head = head.forward(x[:, k])                # (B, N)
            y = y + logits
            saved_heads.append(saved_head)

        saved = (x.shape, saved_heads)
        return y / K, saved

    def backward(self, dy, saved):
        shape, saved_heads = saved

        # y = mean of head(x[:, k])
        dtokens = [head.backward(dy / len(self.heads), saved_head)
                   for head, saved_head in zip(self.heads, saved_heads)]
        dx = np.zeros(shape, dtokens[0].dtype)
        dx[:, :len(dtokens)] = np.stack(dtokens, axis=1)              # (B, K, C)
        return dx

    def describe(self):
        K, one = len(self.heads), self.heads[0].describe()
        return Description("Class heads", f"mean of {K}, each {one.sizes}",
                           (r"dx_k = dy\,W_k^\top / K", r"dW_k = x_k^\top dy / K"))
