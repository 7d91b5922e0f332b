"""Vector quantization as a layer: a learned vocabulary of vectors."""

import numpy as np

from numformer.checks import check_array, check_number, check_whole
from numformer.description import Description
from numformer.functional import (
    embedding, embedding_backward, imitation_loss, imitation_loss_backward, nearest_codes)
from numformer.parameter import Layer, normal


class VectorQuantizer(Layer):
    r"""Replace every vector by the nearest of V codes, (..., C) to (..., C).

    .. math:: y = e_k, \qquad k = \mathrm{argmin}_v\, |z - e_v|

    Between an encoder and a decoder of images it makes tokens of patches: `codes` returns k, on
    which a Transformer can be trained as on characters. It is the quantizer of VQ-VAE and VQGAN;
    the adversarial and perceptual losses of VQGAN are not here.

    The choice of a code has no gradient of use: the derivative of y is 0 nearly everywhere. So the
    backward is that of a surrogate with the same value, in which sg(...) is a constant:

    .. math:: y = z + \mathrm{sg}(e_k - z), \qquad \bar{z} = \bar{y}

    "straight through". It is an estimate and no derivative of the forward, and there is no pair of
    functions of it: `gradcheck` compares a backward with its forward, and would rightly refuse it.
    The tests of this layer check the backward against the surrogate. The codes learn by the
    auxiliary loss, whose terms have one number and different gradients:

    .. math:: L = \langle (\mathrm{sg}(z) - e_k)^2 \rangle
                  + \beta\, \langle (z - \mathrm{sg}(e_k))^2 \rangle

    Each is an `imitation_loss`, which has a constant teacher. L is not an output of `forward`:
    `layer.auxiliary_loss(saved)` is that of the forward which saved, and
    `backward(dy, saved, dauxiliary)` adds its gradient.

    Parameters
    ----------
    n_codes, width : int
        V and C.
    rng : numpy.random.Generator or None
    commitment : float, at least 0
        beta.
    std : float, optional
        Of the initial codes; 1 / sqrt(C) unless given.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, commitment is negative, or `z` does not end in C.

    References
    ----------
    Van den Oord et al. (2017), "Neural Discrete Representation Learning", eq. 1 to 3; Esser et al.
    (2021), "Taming Transformers for High-Resolution Image Synthesis", eq. 2 to 4. The estimator:
    Bengio et al. (2013), "Estimating or Propagating Gradients Through Stochastic Neurons". The
    means, in place of sums over C, are those of the published code of both.

    Examples
    --------
    >>> layer = VectorQuantizer(16, 4, np.random.default_rng(0))
    >>> y, saved = layer.forward(np.ones((2, 5, 4), np.float32))
    >>> layer.backward(np.ones_like(y), saved, dauxiliary=1.0).shape
    (2, 5, 4)
    >>> layer.codes(layer.codebook.data[[3, 1, 4]])
    array([3, 1, 4])
    """

    def __init__(self, n_codes, width, rng, commitment=0.25, std=None, dtype=np.float32):
        check_whole("VectorQuantizer", "n_codes", n_codes)
        check_whole("VectorQuantizer", "width", width)
        check_number("VectorQuantizer", "commitment", commitment, least=0)
        self.codebook = normal(rng, (n_codes, width), width ** -0.5 if std is None else std, dtype)
        self.commitment = float(commitment)

    def forward(self, z):
        ids = self.codes(z)                                           # (...)
        y, saved_lookup = embedding(ids, self.codebook.data)          # (..., C)

        saved = (z, y, saved_lookup)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `z`: dy, and that of dauxiliary * auxiliary_loss(saved)."""
        z, y, saved_lookup = saved

        # y = z + sg(y - z)
        dz = dy.copy()

        # auxiliary = imitation_loss(y, sg(z)) + commitment * imitation_loss(z, sg(y))
        if dauxiliary:
            de = imitation_loss_backward(dauxiliary, imitation_loss(y, z)[1])
            self.codebook.grad += embedding_backward(de, saved_lookup)
            dz += imitation_loss_backward(self.commitment * dauxiliary, imitation_loss(z, y)[1])
        return dz

    def codes(self, z):
        """The numbers (...) of the codes nearest to vectors (..., C)."""
        check_array("VectorQuantizer", "z", z, "(..., C)", self.codebook.data.dtype,
                    C=self.codebook.data.shape[1])
        if not z.size:
            raise ValueError(f"VectorQuantizer: z is empty, shape {z.shape}; give at least one "
                             "vector.")
        return nearest_codes(z, self.codebook.data)

    def auxiliary_loss(self, saved):
        """The auxiliary loss of the forward that saved, a scalar of the layer's dtype."""
        z, y, _ = saved
        return imitation_loss(y, z)[0] + self.commitment * imitation_loss(z, y)[0]

    def describe(self):
        V, C = self.codebook.data.shape
        return Description("Vector quantizer", f"{V:,} codes of {C:,}",
                           (r"dz = dy", r"de_v = 2\,\Sigma\,(e_v - z)\,dL / n"))
