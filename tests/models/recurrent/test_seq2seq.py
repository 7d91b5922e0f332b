"""Recurrent sequence to sequence: padding, steps, attention weights, and learning to reverse."""

import numpy as np
import pytest

from numformer.analysis import attention_by_layer
from numformer.data import consecutive_pairs
from numformer.generation import greedy_search
from numformer.models import Seq2Seq, Seq2SeqConfig
from numformer.training import Trainer, TrainingConfig

KINDS = ["additive", "dot", "general", "scaled_dot", "none"]
INPUTS, LENGTHS_OF = np.array([[3, 4, 5, 6], [6, 3, 0, 0], [7, 7, 4, 0]]), np.array([4, 2, 3])
OUTPUTS = np.array([[1, 4, 8], [1, 3, 3], [1, 5, 6]])


def seq2seq(rng, kind="additive", **options):
    sizes = dict(vocab_size=9, d_model=3, d_hidden=6, attention=kind, dtype="float64")
    model = Seq2Seq(Seq2SeqConfig(**{**sizes, **options}), rng)
    for parameter in model.parameters():
        parameter.data += 0.5 * rng.standard_normal(parameter.data.shape)
    return model


@pytest.mark.parametrize("call_, error, words", [
    (lambda rng: Seq2SeqConfig(vocab_size=0, d_model=2, d_hidden=2), ValueError, "vocab_size=0"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=3), ValueError,
     "d_hidden=3 must be even"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=0, d_hidden=2), ValueError, "d_model=0"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=0), ValueError, "d_hidden=0"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=2, dropout=1), ValueError,
     "dropout=1"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=2, init_std=-1), ValueError,
     "init_std=-1"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=2, dtype="float16"), ValueError,
     "dtype='float16'"),
    (lambda rng: Seq2SeqConfig.from_dict({"vocab_size": 5, "colour": 1}), ValueError,
     "missing: .'d_hidden', 'd_model'"),
    (lambda rng: seq2seq(rng).step(OUTPUTS, seq2seq(rng).begin(INPUTS, LENGTHS_OF)), ValueError,
     "B=3, as the cache has"),
    (lambda rng: seq2seq(rng).begin(INPUTS[0], LENGTHS_OF), ValueError, "shape .B, S."),
])
def test_inputs_that_do_not_fit_are_refused(call_, error, words, rng):
    with pytest.raises(error, match=words):
        call_(rng)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_change_other_logits(kind, rng):
    model = seq2seq(rng, kind)
    together = model(INPUTS, LENGTHS_OF, OUTPUTS)
    other = np.where(np.arange(4) < LENGTHS_OF[:, None], INPUTS, 8)
    assert np.array_equal(model(other, LENGTHS_OF, OUTPUTS), together)
    for b, length in enumerate(LENGTHS_OF):
        alone = model(INPUTS[b:b + 1, :length], LENGTHS_OF[b:b + 1], OUTPUTS[b:b + 1])
        np.testing.assert_allclose(alone[0], together[b], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_later_outputs_do_not_change_earlier_logits(kind, rng):
    model, later = seq2seq(rng, kind), OUTPUTS.copy()
    later[:, 2] = 7
    before, after = model(INPUTS, LENGTHS_OF, OUTPUTS), model(INPUTS, LENGTHS_OF, later)
    assert (np.array_equal(before[:, :2], after[:, :2])
            and not np.isclose(before[:, 2], after[:, 2]).any())


@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_the_forward(kind, rng):
    """Also after its rows were taken in another order, as a beam search does; an old cache stays
    good.
    """
    model, order = seq2seq(rng, kind), [2, 0, 0]
    whole, first = model(INPUTS, LENGTHS_OF, OUTPUTS), model.begin(INPUTS, LENGTHS_OF)
    cache, logits = first, []
    for t in range(3):
        step, cache = model.step(OUTPUTS[:, t:t + 1], cache)
        logits.append(step)
        again = None
        if t < 2:
            again, _ = model.step(OUTPUTS[order, t + 1:t + 2], cache.rows(order))
        if again is not None:
            np.testing.assert_allclose(again[:, 0], whole[order, t + 1], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), whole, rtol=1e-11, atol=1e-12)
    assert np.array_equal(model.step(OUTPUTS[:, :1], first)[0], logits[0])


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_padding_has_no_attention_weight(kind, rng):
    model = seq2seq(rng, kind)
    weights, = attention_by_layer(model, INPUTS, LENGTHS_OF, OUTPUTS).values()
    assert weights.shape == (3, 3, 4) and (weights[1, :, 2:] == 0).all() and (weights[0] > 0).all()
    np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=1e-12)


def test_without_attention_logits_depend_on_one_vector_of_the_source(rng):
    """The first state is the only way; with attention there is another one."""
    for kind in KINDS:
        model = seq2seq(rng, kind)
        model.first.weight.data[...] = 0
        one, other = (model(inputs, LENGTHS_OF, OUTPUTS) for inputs in (INPUTS, (INPUTS + 1) % 9))
        assert np.array_equal(one, other) == (kind == "none")


def test_dropout_needs_a_generator(rng):
    model = seq2seq(rng, dropout=0.5)
    whole = model(INPUTS, LENGTHS_OF, OUTPUTS)
    assert np.array_equal(model(INPUTS, LENGTHS_OF, OUTPUTS), whole)
    one, same, other = (model(INPUTS, LENGTHS_OF, OUTPUTS, np.random.default_rng(seed))
                        for seed in (1, 1, 2))
    assert (np.array_equal(one, same) and not np.array_equal(one, other)
            and not np.array_equal(one, whole))


def test_counting_allocates_no_weights():
    c = Seq2SeqConfig(vocab_size=30000, d_model=620, d_hidden=2000)
    F, C, V = 2000, 620, 30000
    halves = 2 * (3 * (C * F // 2 + (F // 2) ** 2) + 4 * F // 2)      # the encoder's two GRUs
    decoder = 3 * (C * F + 2 * F * F) + 4 * F + 2 * F * F + F         # cell, and additive attention
    assert (sum(p.data.size for p in Seq2Seq(c, None).parameters())
            == 2 * V * C + halves + F // 2 * F + F + decoder + (2 * F + C + 1) * V)


@pytest.mark.slow
def test_it_learns_to_reverse_sequences(rng):
    """Targets are the sources from back to front: what attention is for.

    A few steps, and greedy writing gets new ones right.
    """
    pairs = [(source, source[::-1])
             for source in (rng.integers(3, 9, rng.integers(2, 6)) for _ in range(600))]

    class Stream:
        def batch(self, step):
            chosen = np.random.default_rng(step).choice(500, 64)
            return consecutive_pairs([pairs[k] for k in chosen], 64, 0, 1, 2)[0]

    model = Seq2Seq(Seq2SeqConfig(vocab_size=9, d_model=16, d_hidden=48), np.random.default_rng(0))
    trainer = Trainer(model, Stream(), [],
                      TrainingConfig(steps=250, learning_rate=0.01, min_learning_rate=0.0,
                                     warmup_steps=10, weight_decay=0.0))
    losses = [trainer.train_step()["loss"] for _ in range(250)]
    answers = greedy_search(model, [source for source, _ in pairs[500:]], 0, 1, 2)
    right = np.mean([np.array_equal(answer, target)
                     for answer, (_, target) in zip(answers, pairs[500:])])
    assert losses[0] > 2 and losses[-1] < 0.3 and right > 0.85
    inputs = np.array([[3, 4, 5, 6]]), np.array([4]), np.array([[1, 6, 5, 4]])
    (weights,), = attention_by_layer(model, *inputs).values()
    assert (weights.argmax(axis=1) == [3, 2, 1, 0]).sum() >= 3
