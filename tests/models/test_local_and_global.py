"""Stacks in which most layers look near by, and every few of them everywhere."""

import numpy as np
import pytest

from numformer.analysis import count
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import (
    LayerNorm, LocalAttentionBranch, MultiHeadAttention, RotaryPositions, SelfAttentionBranch)
from numformer.layers.blocks.local import FULL, SLIDING
from numformer.layers.token_step import TokenStep
from numformer.models import (
    BertConfig, Decoder, DecoderConfig, EncoderConfig, NGramDecoder, NGramDecoderConfig)

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


def test_layers_have_the_kinds_of_the_list_again_and_again():
    def kinds(n_layers, types=None, window=4):
        config = EncoderConfig(n_layers=n_layers, n_heads=2, d_model=8, sliding_window=window,
                               layer_types=types)
        assert EncoderConfig.from_dict(config.as_dict()) == config
        return "".join(kind[0] for kind in config.layer_kinds)

    assert kinds(3) == "sss" and kinds(3, window=0) == "fff" and kinds(2, FULL) == "ff"
    assert kinds(7, ",".join([FULL, SLIDING, SLIDING])) == "fssfssf"
    assert kinds(7, [*5 * [SLIDING], FULL]) == "sssssfs" and kinds(1, f"{SLIDING}, {FULL}") == "s"
    assert kinds(3, [SLIDING, FULL], window=0) == "fff"


@pytest.mark.parametrize("types", ["", "sliding", "full_attention,", [], [1], 3])
def test_unknown_kinds_are_refused(types):
    with pytest.raises(ValueError, match="layer_types=.* must be full_attention or sliding"):
        DecoderConfig(**SIZES, n_layers=2, layer_types=types)


def test_configs_of_earlier_runs_keep_their_meaning():
    """global_every was the last of a group in decoders and the first in encoders, whose window had
    the tokens of one side.
    """
    def read(config, **old):
        new = {"sliding_window", "layer_types"}
        options = {name: value for name, value in config(**SIZES, n_layers=6).as_dict().items()
                   if name not in new}
        found = config.from_dict(options | old)
        return found.sliding_window, "".join(kind[0] for kind in found.layer_kinds)

    for every, expected in ((0, "ssssss"), (1, "ffffff"), (2, "sfsfsf"), (6, "sssssf"),
                            (7, "ssssss"), (10**15, "ssssss")):
        assert read(DecoderConfig, sliding_window=4, global_every=every) == (4, expected)
        assert read(DecoderConfig, sliding_window=0, global_every=every) == (0, "ffffff")
    for every, expected in ((1, "ffffff"), (3, "fssfss"), (6, "fsssss"), (10**15, "fsssss")):
        assert read(BertConfig, window=4, global_every=every) == (5, expected)
        assert read(BertConfig, window=0, global_every=every) == (0, "ffffff")
    for wrong in (dict(global_every="3"), dict(global_every=3, window="4")):
        with pytest.raises(ValueError, match="global_every"):
            read(BertConfig, **wrong)


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

    local = [EVERYWHERE.local((1, 1))] * 2
    assert touched(local) == [2, 3, 4, 5, 6] and touched([*local, EVERYWHERE]) == list(range(9))
    assert touched([CAUSAL.local((1, 1))] * 2) == [4, 5, 6]


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
        assert found == [kind == FULL for kind in config.layer_kinds]
        return "".join("lg"[each] for each in found)

    assert is_global(3) == is_global(3, layer_types=[SLIDING, FULL]) == "ggg"
    assert is_global(3, sliding_window=4) == "lll"
    assert is_global(5, sliding_window=4, layer_types=[SLIDING, FULL]) == "lglgl"
    assert is_global(2, sliding_window=4, layer_types=FULL) == "gg"


def test_each_kind_of_layer_has_its_rotary_base():
    config = DecoderConfig(**SIZES, n_layers=2, positions="rotary", rotary_base=1e6,
                           sliding_window=4, layer_types=[SLIDING, FULL], local_rotary_base=1e4,
                           rotary_scaling=dict(kind="linear", factor=8.0))
    local, everywhere = (block.attention.positions for block in Decoder(config, None).blocks)
    assert (local.base, local.scaling) == (1e4, None)
    assert (everywhere.base, everywhere.scaling) == (1e6, config.rotary_scaling)
    alike = DecoderConfig(**{**config.as_dict(), "local_rotary_base": None})
    for block in Decoder(alike, None).blocks:
        assert block.attention.positions.scaling == config.rotary_scaling
    assert type(local) is RotaryPositions


@pytest.mark.parametrize("options", [
    dict(sliding_window=3), dict(
        sliding_window=3, layer_types=[SLIDING, FULL], local_rotary_base=50.0),
    dict(sliding_window=1, positions="learned", norm_first=False)], ids=str)
@pytest.mark.parametrize("kind", [Decoder, NGramDecoder])
def test_steps_with_a_window_are_those_of_the_forward(kind, options, rng):
    """With padding too; the compiled step, which knows no window, does not take the model."""
    config = {Decoder: DecoderConfig, NGramDecoder: NGramDecoderConfig}[kind]
    model = kind(config(**{**SIZES, "positions": "rotary", "n_layers": 3, **options}), rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    assert TokenStep.of(model.blocks, model.norm, model.head) is None and model.new_cache() is None
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
    for options, reach in ((dict(), 6), (dict(layer_types=[SLIDING, SLIDING, FULL]), 9)):
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
        **{**config.as_dict(), "sliding_window": 4, "layer_types": [SLIDING, SLIDING, FULL]}))
    keys, near = sum(range(1, 41)) / 40, (1 + 2 + 3 + 37 * 4) / 40
    assert plain["flops_per_token"] - local["flops_per_token"] == round(
        2 * 4 * 8 * (keys - near))
    assert plain["parameters"] == local["parameters"]
