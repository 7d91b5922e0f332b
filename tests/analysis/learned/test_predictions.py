"""Losses of tokens are the model's, and distributions are those that are sampled from."""

import numpy as np
import pytest

from marks import every
from numformer.analysis import next_token_distribution, token_losses
from numformer.data import Batch
from numformer.functional import softmax
from numformer.generation import choose_token
from numformer.models import (
    Bert, BertConfig, Decoder, DecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig)

SMALL = dict(vocab_size=7, context_length=6, n_layers=1, d_model=8)


def models(rng):
    yield Decoder(DecoderConfig(**SMALL, n_heads=2), rng)
    yield RecurrentLanguageModel(RecurrentLanguageModelConfig(**SMALL, cell="gru"), rng)


def test_losses_of_tokens_have_the_mean_that_the_model_reports(rng):
    ids = rng.integers(0, 7, 7)
    for model in models(rng):
        losses = token_losses(model, ids)
        loss, _ = model.loss(Batch(inputs=ids[None, :-1], targets=ids[None, 1:]))
        assert losses.shape == (6,) and losses.mean() == pytest.approx(float(loss), rel=1e-5)


def test_long_texts_are_read_in_windows_that_overlap_by_half(rng):
    ids = rng.integers(0, 7, 21)
    for model in models(rng):
        expected = []
        for t in range(1, len(ids)):                  # the window of token t begins here
            start = 0 if t <= 6 else 3 * -(-(t - 6) // 3)
            p, _ = softmax(model(ids[None, start:t])[0, -1].astype(np.float64))
            expected.append(-np.log(p[ids[t]]))
            assert t <= 6 or 3 < t - start <= 6, "at least half a context, at most a whole one"
        np.testing.assert_allclose(token_losses(model, ids), expected, rtol=1e-4)


@pytest.mark.parametrize("ids, words", [
    (np.array([1]), "T of 2 or more"), (np.array([[1, 2]]), "T of 2 or more"),
    (np.array([1, 7]), "0 .. 6"), (np.array([0.5, 1.0]), "integers")])
def test_wrong_texts_are_refused(rng, ids, words):
    with pytest.raises((ValueError, TypeError), match=words):
        token_losses(next(models(rng)), ids)


def test_models_without_next_tokens_are_refused(rng):
    config = dict(SMALL, n_heads=2)
    for model in (Bert(BertConfig(**config), rng), None):
        with pytest.raises(ValueError, match="token_losses: .* gives no logits of next tokens"):
            token_losses(model, np.array([1, 2]))


class Uniform:
    """A generator that draws one given number."""

    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


@pytest.mark.parametrize("options", every(3, [
    {}, dict(temperature=0.5), dict(temperature=3.0), dict(top_k=3), dict(top_p=0.6),
    dict(temperature=2.0, top_k=4, top_p=0.7), dict(top_p=1e-9), dict(top_k=99)]))
def test_choose_token_samples_from_the_distribution(rng, monkeypatch, options):
    from numformer.generation import sampling

    monkeypatch.setattr(sampling, "check_generator", lambda *arguments: None)
    logits = rng.standard_normal(8)
    logits[5] = logits[2]                                             # a tie
    p = next_token_distribution(logits, **options)
    assert p.sum() == pytest.approx(1) and (p >= 0).all()
    n = 4000
    chosen = [choose_token(logits, Uniform((k + 0.5) / n), **options) for k in range(n)]
    np.testing.assert_allclose(np.bincount(chosen, minlength=8) / n, p, atol=1.5 / n)


@pytest.mark.parametrize("options, words", [
    (dict(temperature=0), "temperature=0 must be"), (dict(temperature=np.nan), "temperature=nan"),
    (dict(top_k=0), "top_k=0"), (dict(top_p=0), "top_p=0"), (dict(top_p=1.5), "top_p=1.5"),
    (dict(logits=np.array([1.0, np.nan])), "NaN"), (dict(logits=np.zeros((1, 2))), r"\(V,\)")])
def test_wrong_options_of_a_distribution_are_refused(options, words):
    with pytest.raises(ValueError, match=f"next_token_distribution: .*{words}"):
        next_token_distribution(**{"logits": np.zeros(3), **options})
