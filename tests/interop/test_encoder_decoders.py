"""T5 of all versions, BART and mBART: what transformers computes, ours does."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.interop import load
from encoder_decoder_cases import CASES
from witness import (
    VOCABULARY, close, folder_of, goes_back, gradients_agree, in_double, loss_of, quiet,
    random_model, torch)

__all__ = ["in_double"]
pytestmark = [quiet, pytest.mark.usefixtures("in_double")]
S, T = 9, 6


@pytest.fixture(params=CASES)
def pair(request, tmp_path):
    """(theirs, ours)"""
    theirs = random_model(*CASES[request.param]())
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    assert ours.config.dtype == "float64"
    return theirs, ours


@pytest.fixture
def texts(rng):
    """(inputs, lengths, outputs, targets), and what theirs takes for them. Without padding among
    the tokens: BART's gets no gradient."""
    inputs, lengths = rng.integers(2, VOCABULARY, (3, S)), np.array([S, 5, 7])
    outputs, targets = rng.integers(2, VOCABULARY, (2, 3, T))
    targets[0, 3] = IGNORE_INDEX
    real = torch.tensor((np.arange(S) < lengths[:, None]).astype(int))
    return (inputs, lengths, outputs, targets), dict(
        input_ids=torch.tensor(inputs), attention_mask=real,
        decoder_input_ids=torch.tensor(outputs))


def test_logits_loss_and_every_gradient(pair, texts, tmp_path):
    theirs, ours = pair
    batch, given = texts
    logits = theirs(**given).logits
    close(ours(*batch[:3]), logits, 1e-10)
    expected = loss_of(logits, batch[3])
    expected.backward()
    loss, saved = ours.loss(batch)
    ours.loss_backward(saved)
    close(loss, expected, 1e-10)
    gradients_agree(ours, theirs, tmp_path / "gradients")


def test_there_and_back(pair, texts, tmp_path):
    theirs, ours = pair
    goes_back(theirs, ours, tmp_path, texts[1])


def test_padding_on_the_left(pair, texts):
    """Masks in place of lengths: the first tokens of an input are padding."""
    theirs, ours = pair
    (inputs, lengths, outputs, _), given = texts
    real = np.arange(S) >= S - lengths[:, None]                       # (B, S)
    logits = theirs(**{**given, "attention_mask": torch.tensor(real.astype(int))}).logits
    mask = np.broadcast_to(real[:, None, None], (3, 1, S, S))
    found = ours(inputs, np.full(3, S), outputs, input_mask=mask, memory_mask=mask[:, :, :T])
    close(found, logits, 1e-10)
