"""The trainer of n-gram models: longer n-grams with each step, and what it counts."""

from types import SimpleNamespace

import numpy as np
import pytest

from numformer.data import BlockStream
from numformer.models import KneserNey, NGramLanguageModel, NGramLanguageModelConfig
from numformer.training import TrainingConfig, counting_trainer


def test_each_step_counts_longer_ngrams(rng, monkeypatch):
    ids = rng.integers(0, 5, 200)
    stream = BlockStream(ids, context_length=8, batch_size=1, seed=0)
    model = NGramLanguageModel(NGramLanguageModelConfig(vocab_size=5, context_length=8))
    trainer = counting_trainer.CountingTrainer(model, stream, [], TrainingConfig(steps=3))
    clock = iter([1.0, 3.0, 10.0, 14.0, 20.0, 21.0])
    monkeypatch.setattr(counting_trainer, "time", SimpleNamespace(perf_counter=clock.__next__))
    for n in (1, 2, 3):
        metrics = trainer.train_step()
        loss = -KneserNey.fit(ids, n, 5).log_probabilities(ids)[1:].mean()
        assert metrics == {"step": n, "loss": pytest.approx(loss, rel=1e-12)}
        assert trainer.step == model.n == n
    assert trainer.n_targets == 600 and trainer.seconds == 2 + 4 + 1
    assert np.isfinite(loss)


def test_a_largest_n_without_end_is_refused():
    model = NGramLanguageModel(NGramLanguageModelConfig(vocab_size=5, context_length=8))
    with pytest.raises(ValueError, match="the largest n=1000000 must be a whole number, 1 to 1000"):
        counting_trainer.CountingTrainer(model, None, [], TrainingConfig(steps=10**6))
