"""Stacks in which most layers look near by, and every few of them everywhere."""

import numpy as np
import pytest

from numformer.analysis import count
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern, layer_patterns
from numformer.layers import (
    LayerNorm, LocalAttentionBranch, MultiHeadAttention, RotaryPositions, SelfAttentionBranch)
from numformer.layers.token_step import TokenStep
from numformer.models import Decoder, DecoderConfig, NGramDecoder, NGramDecoderConfig

SIZES = dict(vocab_size=11, context_length=40, n_heads=2, d_model=8, dtype="float64")


@pytest.mark.parametrize("T, S", [(5, 5), (2, 7), (1, 6)])
@pytest.mark.parametrize("rules", [
    dict(), dict(causal=True), dict(lengths=[3, 5]), dict(window=(1, None)), dict(window=(3, 0)),
    dict(documents=True),
    dict(mask=True)], ids=str)
def test_local_patterns_keep_all_other_rules(rules, T, S, rng):
    if "documents" in rules:
        rules = dict(documents=np.sort(rng.integers(0, 3, (2, S)), axis=1), causal=True)
    if "mask" in rules:
        rules = dict(mask=rng.random((2, 1, T, S)) < 0.5)
    pattern = AttentionPattern(**rules)
    before = pattern.dense(T, S).copy()
    for left, right in ((2, 1), (0, 0), (None, 1), (2, None)):
        distance = np.arange(S) - np.arange(S - T, S)[:, None]
        least, most = -(S if left is None else left), S if right is None else right
        near = (distance >= least) & (distance <= most)
        assert np.array_equal(pattern.local((left, right)).dense(T, S), before & near)
    assert np.array_equal(pattern.dense(T, S), before)


def test_one_layer_in_so_many_is_global():
    def is_global(*arguments, **options):
        return "".join("gl"[p.window is not None]
                       for p in layer_patterns(CAUSAL, *arguments, **options))

    assert (is_global(7, (4, 4), 3) == "gllgllg"
            and is_global(4, (4, 0), 2, global_first=False) == "lglg")
    assert (is_global(7, (4, 0), 6, global_first=False) == "lllllgl"
            and is_global(3, (1, 1), 1) == "ggg")
    patterns = layer_patterns(AttentionPattern(causal=True, window=(9, None)), 4, (4, None), 2)
    assert (patterns[0] is patterns[2] and patterns[1] is patterns[3]
            and [p.window for p in patterns[:2]] == [(9, None), (4, None)])
    assert all(p.causal for p in patterns)


@pytest.mark.parametrize("change, error, words", [
    (dict(window=3), ValueError, "window=3"), (dict(window=None), ValueError, "needs a window"),
    (dict(window=(-1, 0)), ValueError, "window"), (dict(n_layers=0), ValueError, "n_layers=0"),
    (dict(global_every=0), ValueError, "global_every=0"),
    (dict(global_first=1), TypeError, "global_first=1"),
    (dict(pattern=np.ones((2, 2), bool)), TypeError, "AttentionPattern")])
def test_layer_patterns_that_do_not_fit_are_refused(change, error, words):
    with pytest.raises(error) as caught:
        layer_patterns(**{**dict(pattern=CAUSAL, n_layers=2, window=(1, 1), global_every=2),
                          **change})
    assert words in str(caught.value)


def test_each_local_layer_extends_the_receptive_field_by_a_window(rng):
    """Through two local layers of window 1 it comes two tokens far; a global layer behind them
    carries it everywhere.
    """
    layers = [MultiHeadAttention(8, 2, rng, dtype=np.float64) for _ in range(3)]
    x = rng.standard_normal((1, 9, 8))
    other = x.copy()
    other[0, 4] += 1

    def run(x, patterns):
        for layer, pattern in zip(layers, patterns):
            x = layer(x, pattern=pattern)
        return x

    def touched(patterns):
        return np.flatnonzero((run(x, patterns) != run(other, patterns)).any(axis=(0, 2))).tolist()

    patterns = layer_patterns(EVERYWHERE, 3, (1, 1), 3, global_first=False)
    assert touched(patterns[:2]) == [2, 3, 4, 5, 6] and touched(patterns) == list(range(9))
    assert touched(layer_patterns(CAUSAL, 2, (1, 1), 9, global_first=False)) == [4, 5, 6]


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("pattern", [CAUSAL, AttentionPattern(lengths=[3, 6]),
                                     AttentionPattern(causal=True, window=(None, 0))], ids=str)
def test_a_local_branch_is_a_branch_with_a_narrower_pattern(pattern, order, rng):
    attention, norm = MultiHeadAttention(8, 2, rng, dtype=np.float64), LayerNorm(8, dtype=float)
    local = LocalAttentionBranch(norm, attention, order, window=(2, 1))
    usual, x = SelfAttentionBranch(norm, attention, order), rng.standard_normal((2, 6, 8))
    (y, saved), (expected, expected_saved) = (
        local.forward(x, pattern=pattern), usual.forward(x, pattern=pattern.local((2, 1))))
    assert np.array_equal(y, expected) and not np.array_equal(y, usual(x, pattern=pattern))
    assert np.array_equal(local.backward(y, saved), usual.backward(y, expected_saved))


def test_windows_and_patterns_of_a_local_branch_are_checked(rng):
    attention, norm = MultiHeadAttention(8, 2, rng), LayerNorm(8)
    for window in (3, None, (-1, 0), (1, 2, 3)):
        with pytest.raises(ValueError, match="window"):
            LocalAttentionBranch(norm, attention, window=window)
    branch, x = LocalAttentionBranch(norm, attention, window=(2, 0)), np.ones((1, 3, 8), np.float32)
    for call in (branch, branch.step):
        with pytest.raises(TypeError, match="LocalAttentionBranch: pattern must be an Attention"):
            call(x, pattern=np.tri(3, dtype=bool))


def test_the_layers_of_a_decoder_are_local_or_global():
    def is_global(n_layers, **options):
        config = DecoderConfig(**SIZES, n_layers=n_layers, **options)
        found = [type(block.branches["attention"]) is SelfAttentionBranch
                 for block in Decoder(config, None).blocks]
        assert found == [not local for local in config.local_layers]
        return "".join("lg"[each] for each in found)

    assert is_global(3) == is_global(3, global_every=2) == "ggg"
    assert is_global(3, sliding_window=4) == "lll"
    assert is_global(5, sliding_window=4, global_every=2) == "lglgl"
    assert is_global(7, sliding_window=4, global_every=6) == "lllllgl"
    assert is_global(2, sliding_window=4, global_every=1) == "gg"


def test_each_kind_of_layer_has_its_rotary_base():
    config = DecoderConfig(**SIZES, n_layers=2, positions="rotary", rotary_base=1e6,
                           sliding_window=4, global_every=2, local_rotary_base=1e4,
                           rotary_scaling=dict(kind="linear", factor=8.0))
    local, everywhere = (block.attention.positions for block in Decoder(config, None).blocks)
    assert (local.base, local.scaling) == (1e4, None)
    assert (everywhere.base, everywhere.scaling) == (1e6, config.rotary_scaling)
    alike = DecoderConfig(**{**config.as_dict(), "local_rotary_base": None})
    for block in Decoder(alike, None).blocks:
        assert block.attention.positions.scaling == config.rotary_scaling
    assert type(local) is RotaryPositions


@pytest.mark.parametrize("options", [
    dict(sliding_window=3), dict(sliding_window=3, global_every=2, local_rotary_base=50.0),
    dict(sliding_window=1, positions="learned", norm_first=False)], ids=str)
@pytest.mark.parametrize("kind", [Decoder, NGramDecoder])
def test_steps_with_a_window_are_those_of_the_forward(kind, options, rng):
    """With padding too; the compiled step, which knows no window, does not take the model."""
    config = {Decoder: DecoderConfig, NGramDecoder: NGramDecoderConfig}[kind]
    model = kind(config(**{**SIZES, "positions": "rotary", "n_layers": 3, **options}), rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    assert TokenStep.of(*model._parts) is None and model.new_cache() is None
    ids, padding = rng.integers(0, 11, (2, 14)), np.array([0, 5])
    logits, cache = model.step(ids[:, :6], left_padding=padding)
    parts = [logits]
    for t in range(6, 14):
        logits, cache = model.step(ids[:, t:t + 1], cache)
        parts.append(logits)
    found = np.concatenate(parts, axis=1)
    for b, start in enumerate(padding):
        np.testing.assert_allclose(found[b, start:], model(ids[b:b + 1, start:])[0], rtol=1e-11,
                                   atol=1e-12)


def test_tokens_before_all_windows_have_no_effect(rng):
    """Three layers of window 3 reach 6 tokens back; a global layer reaches all."""
    ids = rng.integers(0, 11, (1, 12))
    other = ids.copy()
    other[0, 2] += 1 if other[0, 2] < 10 else -1
    for options, reach in ((dict(), 6), (dict(global_every=3), 9)):
        model = Decoder(DecoderConfig(**SIZES, n_layers=3, init_std=0.5, sliding_window=3,
                                      **options), rng)
        changed = (model(ids) != model(other)).any(axis=(0, 2))
        assert np.flatnonzero(changed).tolist() == list(range(2, 2 + reach + 1))


def test_without_the_causal_mask_a_window_has_two_sides(rng):
    """A prefix is read in both directions in local layers, too, but no further than a window."""
    ids = rng.integers(0, 11, (1, 12))
    other = ids.copy()
    other[0, 6] = (ids[0, 6] + 1) % 11
    model = Decoder(DecoderConfig(**SIZES, n_layers=1, init_std=0.5, sliding_window=3), rng)
    logits, changed = (model(x, causal=False) for x in (ids, other))
    assert np.flatnonzero((logits != changed).any(axis=(0, 2))).tolist() == [4, 5, 6, 7, 8]
    prefix = np.tri(12, dtype=bool)
    prefix[:7, :7] = True
    logits, changed = (model(x, mask=prefix, causal=False) for x in (ids, other))
    assert np.flatnonzero((logits != changed).any(axis=(0, 2))).tolist() == [4, 5, 6, 7, 8]
    other[0, 6], other[0, 8] = ids[0, 6], (ids[0, 8] + 1) % 11         # behind the prefix
    assert np.array_equal(model(other, mask=prefix, causal=False)[0, :8], logits[0, :8])


def test_costs_count_the_keys_within_the_window():
    """Two local layers, one global: 4 C for each key that a query attends to."""
    config = DecoderConfig(**SIZES, n_layers=3)
    plain, local = count(config), count(DecoderConfig(
        **{**config.as_dict(), "sliding_window": 4, "global_every": 3}))
    keys, near = sum(range(1, 41)) / 40, (1 + 2 + 3 + 37 * 4) / 40
    assert plain["flops_per_token"] - local["flops_per_token"] == round(
        2 * 4 * 8 * (keys - near))
    assert plain["parameters"] == local["parameters"]
