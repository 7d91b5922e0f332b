"""Vector quantization: the nearest code, the gradient that passes, and codes that learn."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.data import load_digits
from numformer.functional import codebook as codebook_module
from numformer.layers import Linear, VectorQuantizer
from numformer.parameter import Layer
from numformer.training import AdamW
from numformer.verify import LAYER_BOUND, gradcheck


class Surrogate:
    """What the backward of a layer is the derivative of, at z: its stopped terms are constants."""

    def __init__(self, layer, z, dauxiliary):
        self.layer, self.named_parameters = layer, layer.named_parameters
        self.z, self.dauxiliary = z.copy(), dauxiliary
        self.y, (_, _, (self.ids, _)) = layer.forward(z)

    def forward(self, z):
        """y and, as one more number, its auxiliary loss."""
        y, e = z + (self.y - self.z), self.layer.codebook.data[self.ids]
        loss = ((self.z - e) ** 2).mean() + self.layer.commitment * ((z - self.y) ** 2).mean()
        return np.append(y, self.dauxiliary * loss), self.layer.forward(self.z)[1]

    def backward(self, dy, saved):
        return self.layer.backward(dy[:-1].reshape(self.z.shape), saved, self.dauxiliary * dy[-1])


def test_every_vector_gets_the_nearest_code_and_of_equal_ones_the_first(rng):
    z, codebook = rng.standard_normal((3, 4, 5)), rng.standard_normal((7, 5))
    distances = ((z[:, :, None] - codebook) ** 2).sum(axis=-1)
    assert np.array_equal(F.nearest_codes(z, codebook), distances.argmin(axis=-1))
    assert F.nearest_codes(np.zeros((1, 2)), np.ones((3, 2))).tolist() == [0]
    layer = VectorQuantizer(7, 5, rng, dtype=float)
    y, (_, _, (ids, _)) = layer.forward(z)
    assert np.array_equal(y, layer.codebook.data[ids]), "to the bit"
    assert np.array_equal(layer.codes(y), ids)


def test_codes_with_a_large_common_part_are_found(rng):
    """|e|^2 / 2 - z e would lose the differences in rounding."""
    for common in (1e3, 1e4):
        codebook = (rng.standard_normal((64, 4)) + common).astype(np.float32)
        z = codebook[rng.integers(0, 64, 200)] + rng.choice([-1, 1], (200, 4)).astype(np.float32)
        distances = ((z[:, None].astype(float) - codebook) ** 2).sum(axis=-1)
        found = F.nearest_codes(z, codebook)
        assert (distances[np.arange(200), found] == distances.min(axis=1)).all()


def test_of_many_equal_codes_the_first_is_named(rng, monkeypatch):
    monkeypatch.setattr(codebook_module, "AT_ONCE", 40)               # several parts
    codebook, z = rng.standard_normal((7, 5))[[0, 1, 1, 2, 3, 4, 5, 6, 6]], np.zeros((11, 5))
    assert F.nearest_codes(codebook, codebook).tolist() == [0, 1, 1, 3, 4, 5, 6, 7, 7]
    assert (F.nearest_codes(z, np.ones((30, 5))) == 0).all()
    assert F.nearest_codes(np.zeros((0, 5)), codebook).shape == (0,)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nothing_is_near_to_nan_or_infinity(bad, rng):
    layer, z = VectorQuantizer(4, 3, rng, dtype=float), np.zeros((2, 2, 3))
    z[1, 0, 2] = bad
    with pytest.raises(ValueError, match=rf"z must be finite, but holds {bad} at index \(1, 0, 2"):
        layer.forward(z)
    layer.codebook.data[3, 1] = bad
    with pytest.raises(ValueError, match=rf"codebook must be finite, but holds {bad} at .*lower"):
        layer.codes(np.zeros((2, 3)))


def test_the_gradient_passes_and_is_not_the_derivative(rng):
    layer, z, dy = VectorQuantizer(7, 5, rng, dtype=float), *rng.standard_normal((2, 3, 4, 5))
    y, saved = layer.forward(z)
    assert np.array_equal(layer.backward(dy, saved), dy) and (layer.codebook.grad == 0).all()
    assert np.array_equal(layer(z + 1e-9), y), "the derivative of the forward is 0"
    assert not gradcheck(layer, [z]).ok


@pytest.mark.parametrize("commitment", [0.0, 0.25, 2.0])
@pytest.mark.parametrize("dauxiliary", [0.0, 0.7])
def test_every_derivative_of_the_surrogate_equals_the_complex_step(commitment, dauxiliary, rng):
    layer = VectorQuantizer(4, 3, rng, commitment, dtype=float)
    z = rng.standard_normal((2, 5, 3))
    report = gradcheck(Surrogate(layer, z, dauxiliary), [z], bound=LAYER_BOUND)
    assert report.ok and len(report.rows) == 2, str(report)
    y, saved = layer.forward(z)
    expected = (1 + commitment) * ((z - y) ** 2).mean()
    np.testing.assert_allclose(layer.auxiliary_loss(saved), expected, rtol=1e-12)


def test_a_code_moves_to_the_mean_of_those_that_chose_it(rng):
    layer = VectorQuantizer(2, 3, rng, dtype=float)
    layer.codebook.data[...] = [[1.0, 1, 1], [-1.0, -1, -1]]
    z = np.concatenate([1, -1] * rng.uniform(1, 2, (6, 1, 2)), axis=-1).reshape(12, 1) * np.ones(3)
    chosen = layer.codes(z)
    for _ in range(300):
        y, saved = layer.forward(z)
        layer.zero_grad()
        layer.backward(np.zeros_like(y), saved, dauxiliary=1.0)
        layer.codebook.data -= layer.codebook.grad
    for code in (0, 1):
        np.testing.assert_allclose(layer.codebook.data[code], z[chosen == code].mean(axis=0),
                                   rtol=1e-6)


class Autoencoder(Layer):
    """Patches to codes and back."""

    def __init__(self, rng):
        self.encoder, self.decoder = Linear(4, 3, rng), Linear(3, 4, rng)
        self.quantizer = VectorQuantizer(16, 3, rng)

    def loss(self, patches):
        z, saved_encoder = self.encoder.forward(patches)
        y, saved_quantizer = self.quantizer.forward(z)
        found, saved_decoder = self.decoder.forward(y)
        loss, saved_loss = F.imitation_loss(found, patches)
        return loss, (saved_encoder, saved_quantizer, saved_decoder, saved_loss)

    def loss_backward(self, saved):
        saved_encoder, saved_quantizer, saved_decoder, saved_loss = saved
        dy = self.decoder.backward(F.imitation_loss_backward(1.0, saved_loss), saved_decoder)
        self.encoder.backward(self.quantizer.backward(dy, saved_quantizer, 1.0), saved_encoder)


@pytest.mark.slow
def test_an_autoencoder_learns_codes_of_patches():
    """Sixteen codes for 2 x 2 pixels: most of the variance is kept, and most codes are used."""
    images = load_digits().train_images[:200].astype(np.float32)
    images = (images - images.mean()) / images.std()
    patches = F.patches(images, 2)[0].reshape(-1, 4)                 # (3200, 4)
    model = Autoencoder(np.random.default_rng(0))
    optimizer = AdamW(model, weight_decay=0.0)
    for _ in range(200):
        loss, saved = model.loss(patches)
        model.zero_grad()
        model.loss_backward(saved)
        optimizer.step(0.02)
    constant = patches.var(axis=0).mean()
    assert loss < 0.25 * constant
    ids = model.quantizer.codes(model.encoder(patches))
    assert len(np.unique(ids)) >= 8


@pytest.mark.parametrize("wrong, error, words", [
    (dict(n_codes=0), ValueError, "n_codes=0"), (dict(width=1.5), ValueError, "width=1.5"),
    (dict(commitment=-1), ValueError, "commitment=-1")])
def test_settings_that_make_no_sense_are_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        VectorQuantizer(**{"n_codes": 4, "width": 3, "rng": None, **wrong})


def test_a_codebook_without_codes_is_refused(rng):
    with pytest.raises(ValueError, match="has no codes"):
        F.nearest_codes(rng.standard_normal((2, 3)), np.zeros((0, 3)))
