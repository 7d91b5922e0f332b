"""Parts of the experiment three-families: baselines, batches, spans, accuracy, operations."""

from itertools import permutations

import numpy as np
import pytest

from numformer.data import tales
from numformer.data.batches.pairs import pair_batch
from numformer.experiments.transfer import family_models as models
from numformer.experiments.transfer import family_tasks as tasks
from numformer.experiments.transfer.family_tasks import BOS, EOS, PADDING, SEPARATOR, Example
from numformer.functional import IGNORE_INDEX


def test_a_ngram_of_few_summaries():
    orders = [Example([], list(order)) for order in permutations((5, 6, 7, 8))]
    rng = np.random.default_rng(0)
    summaries = [orders[n] for n in rng.integers(0, 24, 600)]
    expected = (1 / 4 + 1 / 3 + 1 / 2 + 1) / 4                        # of 4 tokens, then 3, ...
    assert tasks.by_n_gram(summaries, orders, vocab_size=9) == pytest.approx(expected, abs=0.03)


@pytest.mark.slow
def test_answers_are_where_their_spans_are_and_similar_sentences_find_most():
    _, made = tasks.data()
    for each in made["answers"].held_out:
        assert each.source[slice(*each.span)] == each.target
        assert each.source.index(SEPARATOR) < each.span[0]
    told = tales(20, held_out=True)
    assert tasks.exact(lambda question, story: question.answer, told) == 1
    assert tasks.exact(lambda question, story: (), told) == 0
    baselines = made["answers"].baselines
    assert 0.2 < baselines["last_entity"] < baselines["overlap"] < 0.9


def test_a_decoder_learns_targets_alone():
    pairs = [([7, 8, 9], [5]), ([7], [5, 6])]
    inputs, targets = models.causal_batch(pairs)
    for row, target_row, (source, target) in zip(inputs, targets, pairs):
        assert row[:len(source) + 1].tolist() == [*source, BOS]
        assert target_row[target_row != IGNORE_INDEX].tolist() == [*target, EOS]
        assert (target_row != IGNORE_INDEX).nonzero()[0][0] == len(source)


def test_rows_of_an_encoder_hold_the_answer_at_their_targets():
    rows = models.span_rows([Example([9, SEPARATOR, 5, 6, 7], [6, 7], (3, 5)),
                             Example([8, 9, SEPARATOR, 5], [5], (3, 4))]).take(slice(None))
    for ids, (first, last), answer in zip(rows.ids, rows.targets, ([6, 7], [5])):
        assert ids[0] == BOS and ids[first : last + 1].tolist() == answer


def test_sizes_and_operations_are_about_equal():
    examples = [Example([5] * 40, [6])] * 3
    made = {name: new() for name, new in models.families(vocab_size=300, seed=0).items()}
    sizes = {name: sum(p.data.size for p in model.parameters()) for name, model in made.items()}
    assert max(sizes.values()) < 1.1 * min(sizes.values())
    C, tokens = 64, 42                                                # BOS and target; or [CLS]
    assert models.flops(made["decoder"], "decoder", examples) == 2 * 4 * 12 * C * C * tokens
    assert models.flops(made["encoder"], "encoder", examples) == pytest.approx(
        2 * 4 * 12 * C * C * tokens, rel=0.01)
    assert models.flops(made["encoder_decoder"], "encoder_decoder", examples) == (
        2 * C * C * (3 * 12 * 40 + 2 * 40 + 14 * 2))


@pytest.mark.parametrize("family", ["decoder", "encoder_decoder"])
def test_accuracy_of_a_model_that_knows_the_targets(family):
    pairs = [([7, 8], [5, 6]), ([7], [5])]
    *_, targets = (models.causal_batch(pairs) if family == "decoder" else
                   pair_batch(pairs, PADDING, BOS, EOS))

    def model(*inputs):
        return np.eye(9)[np.where((targets == 6) | (targets < 0), 0, targets)]

    examples = [Example(*pair) for pair in pairs]
    assert models.accuracy(model, family, examples) == (0.5, 2 / 3)


def test_accuracy_of_an_encoder_is_that_of_whole_spans():
    examples = [Example([9, SEPARATOR, 5, 6, 7], [6, 7], (3, 5)),
                Example([9, SEPARATOR, 5, 6, 7], [6], (3, 4))]

    def model(ids, lengths, segments):
        first, last = models.span_rows(examples[:1]).targets[0]       # of both rows
        logits = np.zeros((len(ids), 2, ids.shape[1]))
        logits[:, 0, first] = logits[:, 1, last] = 9
        return logits

    assert models.accuracy(model, "encoder", examples) == (0.5, 0.5)
