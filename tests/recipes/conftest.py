"""Fixtures of the tests of presets."""

import pytest

from command import small_pictures                                    # noqa: F401
from numformer.models import EncoderDecoder, EncoderDecoderConfig
from tiny_presets import small_data


@pytest.fixture(scope="module")
def few_examples():
    """The tasks of all presets as they are, with few examples of each."""
    with small_data():
        yield


@pytest.fixture
def tokenizer(request):
    """That of the page's `TASK`, of pairs of texts."""
    task = request.module.TASK
    return task.tokenizer(task.pairs())


@pytest.fixture
def model(tokenizer, rng):
    """A small translator for it, before training."""
    return EncoderDecoder(EncoderDecoderConfig(
        vocab_size=len(tokenizer), context_length=32, n_layers=2, n_heads=2, d_model=8), rng)
