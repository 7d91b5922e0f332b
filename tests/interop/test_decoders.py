"""Decoders: what transformers computes with its weights, ours computes with the same ones."""

from dataclasses import replace

import numpy as np
import pytest

from numformer.generation import generate
from numformer.interop import FAMILIES, load
from decoder_cases import CASES
from witness import (
    VOCABULARY, close, folder_of, goes_back, gradients_agree, in_double, loss_of, next_tokens,
    quiet, random_model, torch)

__all__ = ["in_double"]
pytestmark = [quiet, pytest.mark.usefixtures("in_double")]


@pytest.fixture(params=CASES)
def pair(request, tmp_path):
    """(theirs, ours, folder)"""
    theirs = random_model(*CASES[request.param]())
    folder = folder_of(theirs, tmp_path / "theirs")
    ours, tokenizer = load(folder)
    assert tokenizer is None and ours.config.dtype == "float64"
    return theirs, ours, folder


def test_logits_loss_and_every_gradient(pair, rng, tmp_path):
    theirs, ours, _ = pair
    ids, targets = next_tokens(rng)
    logits = theirs(torch.tensor(ids)).logits
    close(ours(ids), logits, 1e-10)
    expected = loss_of(logits, targets)
    expected.backward()
    loss, saved = ours.loss((ids, targets))
    ours.loss_backward(saved)
    close(loss, expected, 1e-10)
    gradients_agree(ours, theirs, tmp_path / "gradients")


def test_greedy_texts(pair, rng):
    theirs, ours, _ = pair
    prompt = rng.integers(0, VOCABULARY, 4)
    expected = theirs.generate(torch.tensor(prompt[None]), do_sample=False,
                               max_new_tokens=12)[0, 4:]
    found = list(generate(ours, prompt, 12, np.random.default_rng(0), temperature=0))
    assert found == expected.tolist() and len(set(found)) > 1


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_batches(pair, rng, side):
    theirs, ours, _ = pair
    ids, lengths = rng.integers(0, VOCABULARY, (3, 7)), np.array([7, 3, 5])
    first = (7 - lengths if side == "left" else 0 * lengths)[:, None]
    positions = np.arange(7) - first                                  # (B, T)
    real = (positions >= 0) & (positions < lengths[:, None])
    with torch.no_grad():
        places = dict(position_ids=torch.tensor(positions.clip(0)))
        if theirs.config.model_type == "bloom":       # it counts the tokens of the mask
            places = {}
        expected = theirs(torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)),
                          **places).logits
    if side == "left":
        found, _ = ours.step(ids, left_padding=7 - lengths)
    else:
        found = ours(ids)                             # causal: padding comes after all tokens
    close(found[real], expected.numpy()[real], 1e-10)


def test_there_and_back(pair, rng, tmp_path):
    theirs, ours, _ = pair
    goes_back(theirs, ours, tmp_path, {"input_ids": torch.tensor(next_tokens(rng)[0])})


def test_the_checks_can_fail(rng, tmp_path, monkeypatch):
    """Queries in the place of keys are found, and a gradient that is off by 1e-8."""
    theirs = random_model(*CASES["gpt2"]())
    folder = folder_of(theirs, tmp_path / "theirs")
    ids, targets = next_tokens(rng)
    logits = theirs(torch.tensor(ids)).logits
    other = {"query": "key", "key": "query"}
    right = FAMILIES["gpt2"]

    def swapped(config):
        for row in right.rows(config):
            name = row.ours.split(".")[-2]
            yield row._replace(ours=row.ours.replace(name, other.get(name, name)))

    with monkeypatch.context() as patch:
        patch.setitem(FAMILIES, "gpt2", replace(right, rows=swapped))
        with pytest.raises(AssertionError, match="off by"):
            close(load(folder)[0](ids), logits, 1e-10)
    ours, _ = load(folder)
    loss, saved = ours.loss((ids, targets))
    ours.loss_backward(saved)
    loss_of(logits, targets).backward()
    ours.blocks[1].norm2.bias.grad[:] *= 1 + 1e-8
    with pytest.raises(AssertionError, match="transformer.h.1.ln_2.bias: off by"):
        gradients_agree(ours, theirs, tmp_path / "gradients")
