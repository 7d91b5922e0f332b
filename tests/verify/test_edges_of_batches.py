"""Batches at the edges, for every registered model: right, or one error with its cure."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.models.transformer import has_targets
from numformer.verify.registry import MODELS
from numformer.verify.registry.cases import next_tokens

CASES = [case for case in MODELS if hasattr(case.layer(), "loss") and (case.batch or case.ids)]
# Whose last array has no targets to ignore: lengths of texts, marks of what belongs together, the
# states of a teacher, the numbers that follow
OTHERS = {"CLIP", "SentenceBert", "TinyBert", "Forecaster"}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


def batch_of(case):
    return tuple((case.batch or next_tokens)(*case.ids))


def gradients(model, batch):
    """(loss, all gradients) of a batch, with a generator as in training."""
    model.zero_grad()
    loss, saved = model.loss(batch, np.random.default_rng(0))
    model.loss_backward(saved)
    return loss, [parameter.grad.copy() for parameter in model.parameters()]


def test_one_example_is_enough(case):
    loss, grads = gradients(case.layer(), tuple(array[:1] for array in batch_of(case)))
    assert np.isfinite(loss) and all(np.isfinite(grad).all() for grad in grads)


def test_no_example_is_refused(case):
    with pytest.raises(ValueError, match="empty|must hold something|at least one") as caught:
        gradients(case.layer(), tuple(array[:0] for array in batch_of(case)))
    assert ": " in str(caught.value), "it says who refuses"


def test_texts_without_tokens_are_refused(case):
    batch = [array[:, :0] if array.ndim > 1 else array for array in batch_of(case)]
    with pytest.raises(ValueError, match=r"^\w+: .*"):
        gradients(case.layer(), tuple(batch))


def test_targets_that_are_all_ignored_are_refused_unless_another_loss_is_left(case):
    """A trainer leaves such batches out."""
    model = case.layer()
    if type(model).__name__ in OTHERS:
        return
    *inputs, targets = batch_of(case)
    batch = *inputs, np.full_like(targets, IGNORE_INDEX)
    if hasattr(model, "loss_counts") and has_targets(model, batch):
        loss, grads = gradients(model, batch)
        assert np.isfinite(loss) and all(np.isfinite(grad).all() for grad in grads)
    else:
        with pytest.raises(ValueError, match="every target is ignore_index=-100; leave such a"):
            gradients(model, batch)


def test_all_kinds_of_losses_are_tried():
    assert {type(case.layer()).__name__ for case in CASES} >= OTHERS
    assert len({type(case.layer()) for case in CASES}) >= 17
