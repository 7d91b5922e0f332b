"""What a search is given is checked before any work: nothing means something else in silence."""

import numpy as np
import pytest

from numformer.analysis import average_precision
from numformer.functional import adam_step
from numformer.generation import beam_search, choose_token, greedy_search, pooled_beam_search
from numformer.models import EncoderDecoder, EncoderDecoderConfig
from numformer.training import AdamW

SEARCHES = [greedy_search, beam_search, pooled_beam_search]


@pytest.fixture(scope="module")
def model():
    return EncoderDecoder(EncoderDecoderConfig(
        vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8), np.random.default_rng(0))


@pytest.mark.parametrize("search", SEARCHES)
def test_sources_and_special_tokens_are_ids(search, model):
    for sources in ([np.array([4.9, 3.2])], [[4, 3.5]], [[True]], ["45"], [[[4]]], [4], 5, [[]],
                    []):
        with pytest.raises((TypeError, ValueError), match="source"):
            search(model, sources, 0, 1, 2, max_tokens=2)
    for wrong in (9, -1, "2", None, True, 2.0, [2], 10**400):
        for place, name in enumerate(("padding", "bos", "eos")):
            ids = [0, 1, 2]
            ids[place] = wrong
            if (name, wrong) == ("eos", None):           # no end
                continue
            with pytest.raises(ValueError, match=f"{name}=.* whole number, 0 to 8"):
                search(model, [[4, 5]], *ids, max_tokens=2)


@pytest.mark.parametrize("search", SEARCHES)
def test_without_an_end_an_answer_has_all_its_tokens(search, model):
    (answer,) = search(model, [[4, 5]], 0, 1, None, max_tokens=4)
    for found in answer if isinstance(answer, list) else [answer]:
        assert len(getattr(found, "ids", found)) == 4


@pytest.mark.parametrize("search", SEARCHES[1:])
def test_a_length_penalty_whose_power_is_no_float_is_refused(search, model):
    for penalty in (1e300, 10**400, 300, "1", True, -1, float("nan"), None):
        with pytest.raises(ValueError, match="length_penalty"):
            search(model, [[4, 3]], 0, 1, 2, max_tokens=3, length_penalty=penalty)
    search(model, [[4, 3]], 0, 1, 2, max_tokens=3, length_penalty=200)


def test_early_stopping_is_true_false_or_never(model):
    for wrong in (1, 0, np.True_, None, "always", [True]):
        with pytest.raises(ValueError, match="early_stopping"):
            pooled_beam_search(model, [[4]], 0, 1, 2, max_tokens=2, early_stopping=wrong)


def test_top_p_is_a_number():
    rng = np.random.default_rng(0)
    for wrong in ("0.9", [0.5], True, 0.0, 1.5, float("nan"), 10**400):
        with pytest.raises(ValueError, match="top_p"):
            choose_token(np.zeros(3), rng, top_p=wrong)
    assert choose_token(np.zeros(3), rng, top_p=np.float32(0.5)) in range(3)
    with pytest.raises(ValueError, match="empty"):
        choose_token(np.zeros(0), rng)


def test_finds_are_boxes_of_numbers_one_for_each_score():
    box = np.array([[0.0, 0.0, 1.0, 1.0]])
    for scores, boxes in ((np.array([0.5]), box * np.nan), (np.array([0.5, 0.4]), box),
                          (np.array([0.5]), np.concatenate([box, box]))):
        with pytest.raises(ValueError, match="image 0"):
            average_precision([(scores, boxes)], [box])
    with pytest.raises(ValueError, match="image 0 holds NaN"):
        average_precision([(np.array([0.5]), box)], [box * np.nan])


@pytest.mark.parametrize("dtype, wrong", [("float32", (1e-45, 1e-23, 1e20, 1e300)),
                                          ("float64", (1e-300, 1e160))])
def test_an_epsilon_below_the_root_of_the_smallest_square_is_refused(dtype, wrong, model):
    for epsilon in (*wrong, 10**400, float("nan"), -1.0):
        with pytest.raises(ValueError, match="epsilon"):
            adam_step(*np.ones((4, 2), dtype), 0.1, 1, epsilon=epsilon)
        if dtype == "float32":
            with pytest.raises(ValueError, match="AdamW: epsilon"):
                AdamW(model, epsilon=epsilon)
    data, gradient = np.zeros(1, dtype), np.full(1, np.finfo(dtype).tiny, dtype)
    adam_step(data, gradient, *np.zeros((2, 1), dtype), 1.0, 1, epsilon=2e-19)
    assert abs(data[0]) <= 1
