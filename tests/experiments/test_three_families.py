"""Parts of the experiment three-families: baselines, batches of a decoder, operations."""

from itertools import permutations

import numpy as np
import pytest

from numformer.experiments.transfer import three_families as page
from numformer.functional import IGNORE_INDEX


def test_baselines_of_few_examples():
    training = [([7, 8, page.SEPARATOR, 7], [5]), ([7, 8, page.SEPARATOR, 8], [5]),
                ([7, 8, page.SEPARATOR, 9], [6])]
    held_out = [([7, page.SEPARATOR, 8], [6]), ([7, page.SEPARATOR, 7], [5])]
    assert page.by_feature(training, held_out, lambda source: 0) == 0.5
    assert page.by_feature(training, held_out, page.missing) == 1.0
    orders = [([], list(order)) for order in permutations((5, 6, 7, 8))]
    rng = np.random.default_rng(0)
    summaries = [orders[n] for n in rng.integers(0, 24, 600)]
    expected = (1 / 4 + 1 / 3 + 1 / 2 + 1) / 4                        # of 4 tokens, then 3, ...
    assert page.by_n_gram(summaries, orders, vocab_size=9) == pytest.approx(expected, abs=0.03)


def test_a_decoder_learns_targets_alone():
    pairs = [([7, 8, 9], [5]), ([7], [5, 6])]
    inputs, targets = page.causal_batch(pairs)
    for row, target_row, (source, target) in zip(inputs, targets, pairs):
        assert row[:len(source) + 1].tolist() == [*source, page.BOS]
        assert target_row[target_row != IGNORE_INDEX].tolist() == [*target, page.EOS]
        assert (target_row != IGNORE_INDEX).nonzero()[0][0] == len(source)


def test_sizes_and_operations_are_about_equal():
    pairs = [([5] * 40, [6])] * 3
    models = {name: new() for name, new in page.families(vocab_size=300, seed=0).items()}
    sizes = {name: sum(p.data.size for p in model.parameters()) for name, model in models.items()}
    assert max(sizes.values()) < 1.1 * min(sizes.values())
    C, tokens = 64, 42                                                # BOS and the label; or [CLS]
    assert page.flops(models["decoder"], "decoder", pairs) == 2 * 4 * 12 * C * C * tokens
    assert page.flops(models["encoder"], "encoder", pairs) == pytest.approx(
        2 * 4 * 12 * C * C * tokens, rel=0.01)
    assert page.flops(models["encoder_decoder"], "encoder_decoder", pairs) == (
        2 * C * C * (3 * 12 * 40 + 2 * 40 + 14 * 2))


@pytest.mark.parametrize("family", ["decoder", "encoder_decoder"])
def test_accuracy_of_a_model_that_knows_the_targets(family):
    pairs = [([7, 8], [5, 6]), ([7], [5])]
    known = page.causal_batch(pairs) if family == "decoder" else page.pair_batch(
        pairs, page.PADDING, page.BOS, page.EOS)
    *_, targets = known

    def model(*inputs):
        return np.eye(9)[np.where((targets == 6) | (targets < 0), 0, targets)]

    assert page.accuracy(model, family, pairs, 9) == (2 / 3, 0.5)
