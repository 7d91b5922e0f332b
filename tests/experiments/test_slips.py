"""Misprints of equations: each is what the notes print, its backward is right, and the tests of
the experiment notice those that they should."""

from functools import partial

import numpy as np
import pytest

from marks import every
from numformer.experiments.attention import slips
from numformer.experiments.attention.slip_parts import attention, checks, others
from numformer.functional import cross_entropy, sinusoidal_positions, softmax
from numformer.models import Decoder, DecoderConfig
from numformer.verify import gradcheck

NOTICE = {
    "right": "none", "two_sines": "reference", "cosine_first": "reference",
    "width_of_a_head": "reference", "without_root": "reference", "no_softmax": "reference",
    "softmax_over_queries": "gradients", "own_key": "shapes", "without_values": "shapes",
    "shared_values": "gradients", "exchanged": "reference", "transposed_mask": "gradients",
    "no_mask": "gradients", "last_token_alone": "gradients", "norm_over_vectors": "gradients",
    "sum_not_normalized": "reference"}


def small(rng, name, dtype="float64"):
    config = DecoderConfig(**slips.OPTIONS, vocab_size=11, context_length=6, n_layers=2, n_heads=2,
                           d_model=8, init_std=0.5, dtype=dtype)
    return slips.slipped(name, Decoder(config, rng))


@pytest.mark.parametrize("name", every(4, slips.SLIPS))
def test_a_backward_is_that_of_its_forward_and_the_right_test_notices(name):
    found = checks.noticed_by(partial(slips.slipped, name), slips.SLIPS["right"].change,
                              slips.OPTIONS)
    assert not found["gradcheck"]
    assert checks.first_notice(found) == NOTICE[name]


def test_a_wrong_backward_is_noticed_by_gradcheck(monkeypatch):
    monkeypatch.setattr(attention.NoSoftmax, "normalize_backward", lambda self, dp, saved: dp)
    change = partial(slips.slipped, "no_softmax")
    assert checks.noticed_by(change, slips.SLIPS["right"].change, slips.OPTIONS)["gradcheck"]


def test_attention_written_out_is_that_of_the_library(rng):
    written = small(np.random.default_rng(1), "right")
    plain = Decoder(written.config, np.random.default_rng(1))
    ids = rng.integers(0, 11, (2, 6))
    np.testing.assert_allclose(written(ids), plain(ids), rtol=1e-12, atol=1e-13)


def test_a_root_outside_the_exponential_cancels(rng):
    q, k, v = rng.standard_normal((3, 1, 2, 5, 4))
    outside, without = (kind().attend(q, k, v, None, None)[0]
                        for kind in (attention.RootOutside, attention.WithoutRoot))
    np.testing.assert_allclose(outside, without, rtol=1e-13)
    assert gradcheck((lambda *x: attention.RootOutside().attend(*x, None, None),
                      attention.RootOutside().attend_backward), [q, k, v]).ok


def test_exchanged_queries_and_keys_are_the_right_model_with_exchanged_weights(rng):
    model, ids = small(rng, "exchanged"), rng.integers(0, 11, (2, 6))
    printed = model(ids)
    for block in model.blocks:
        layer = block.attention
        layer.query, layer.key = layer.key, layer.query
    slips.SLIPS["right"].change(model)
    np.testing.assert_allclose(model(ids), printed, rtol=1e-12, atol=1e-13)


def test_own_key_is_the_sum_of_the_notes(rng):
    q, k, v = rng.standard_normal((3, 1, 1, 5, 4))
    o = attention.OwnKey().attend(q, k, v, None, None)[0]
    for t in range(1, 6):                                             # h(x) for x_1 .. x_t
        alpha, _ = softmax((q[0, 0, :t] * k[0, 0, :t]).sum(axis=1) / 2)
        np.testing.assert_allclose(o[0, 0, t - 1], alpha @ v[0, 0, :t], rtol=1e-12)


def test_a_softmax_over_queries_sums_to_one_for_every_key(rng):
    q, k, v = rng.standard_normal((3, 2, 2, 5, 4))
    p = attention.SoftmaxOverQueries().steps(q, k, v)[0]["weights"]
    np.testing.assert_allclose(p.sum(axis=-2), 1, rtol=1e-12)
    assert not np.triu(p[0, 0], 1).any()


def test_the_transposed_mask_depends_on_the_future_alone(rng):
    q, k, v = rng.standard_normal((3, 1, 1, 5, 4))
    attended = attention.TransposedMask().attend(q, k, v, None, None)[0]
    v[:, :, 2] += 1
    changed = attention.TransposedMask().attend(q, k, v, None, None)[0] != attended
    assert changed.any(axis=3)[0, 0].tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("name, sees_all", [("right", True), ("last_token_alone", True),
                                            ("transposed_mask", False), ("no_mask", False),
                                            ("softmax_over_queries", False),
                                            ("norm_over_vectors", False)])
def test_the_loss_from_prefixes_is_the_loss_of_models_that_see_no_future(rng, name, sees_all):
    model, ids = small(rng, name), rng.integers(0, 11, (3, 7))
    at_once = cross_entropy(model(ids[:, :-1]), ids[:, 1:])[0]
    difference = abs(slips.loss_from_prefixes(model, ids) - at_once)
    assert difference < 1e-12 if sees_all else difference > 1e-3


def test_printed_sinusoids_have_their_frequencies():
    t, p, right = 3, 8, sinusoidal_positions([3], 8)[0]
    two, first = others.two_sines([t], p)[0], others.cosine_first([t], p)[0]
    narrow = others.width_of_a_head(2)([t], p)[0]
    for i in range(4):
        assert two[2 * i] == two[2 * i + 1] == right[2 * i]
        np.testing.assert_allclose(first[2 * i:2 * i + 2], [
            np.cos(t / 10000 ** (2 * i / p)), np.sin(t / 10000 ** ((2 * i + 1) / p))], rtol=1e-12)
        angle = t / 10000 ** (2 * i / 4)                              # heads of width 4
        np.testing.assert_allclose(narrow[2 * i:2 * i + 2], [np.sin(angle), np.cos(angle)],
                                   rtol=1e-12)


def test_a_norm_over_vectors_gives_each_coordinate_a_root_mean_square_of_one(rng):
    x = rng.standard_normal((2, 5, 3))
    y = others.RMSNormOverVectors(3, epsilon=0.0, dtype=np.float64)(x)
    np.testing.assert_allclose((y * y).mean(axis=1), 1, rtol=1e-12)


def test_the_loss_but_last_leaves_out_one_position(rng):
    model, ids = small(rng, "no_mask"), rng.integers(0, 11, (3, 7))
    all_logits = model(ids[:, :-1])
    total = sum(cross_entropy(all_logits[:, t], ids[:, t + 1])[0] for t in range(5)) / 5
    assert slips.loss_but_last(model, ids) == pytest.approx(total, rel=1e-12)


def test_generation_continues_the_prompt_within_the_context(rng):
    ids = slips.generated(small(rng, "transposed_mask"), np.array([1, 2]), 8, rng)
    assert len(ids) == 10 and ids[:2] == [1, 2] and all(0 <= token < 11 for token in ids)


def test_float32_stays_float32(rng):
    for name in slips.SLIPS:
        model = small(rng, name, "float32")
        logits, saved = model.forward(rng.integers(0, 11, (2, 6)))
        model.backward(np.ones_like(logits), saved)
        assert logits.dtype == np.float32, name
