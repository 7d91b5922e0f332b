"""Every verdict tells its seed, which gives it again; a function that is random is called so."""

import numpy as np
import pytest

from numformer import check
from numformer import functional as F
from numformer.teaching import judge
from numformer.teaching.exercise import find_exercises
from numformer.testing import assert_matches


def right(x):
    return F.softmax(x)[0]


def wrong(x):
    return np.exp(x) / np.exp(x).sum(axis=0)


def near(x):
    """Wrong for some shapes alone: the verdict depends on the seed."""
    return F.softmax(x, axis=0 if len(x) == 5 else -1)[0]


def raises(x):
    return x @ x @ np.ones(99)


def not_written(x):
    pass


def nan(x):
    return x * np.nan


def ends(x):
    raise SystemExit


FUNCTIONS = [right, wrong, near, raises, not_written, nan, ends]


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("process", [False, True])
def test_the_seed_of_a_verdict_gives_the_same_verdict(fn, process):
    first = check("softmax", fn, process=process)
    again = check("softmax", fn, seed=first.seed, process=process)
    assert again == first and again.text == first.text and repr(again) == repr(first)
    assert repr([again.found, again.error]) == repr([first.found, first.error])
    for shown in (first.text, repr(first), str(first)):
        assert shown.split()[-1] == f"seed={first.seed}"
    assert f"seed={first.seed}</div>" in first._repr_html_()


def test_without_a_seed_each_check_has_another():
    assert len({check("relu", F.relu, levels=["plain"]).seed for _ in range(5)}) == 5
    assert check("relu", F.relu, np.int64(3), ["plain"]) == check("relu", F.relu, 3, ["plain"])


def test_a_process_that_ended_python_is_a_verdict_with_a_seed():
    import os
    verdict = check("softmax", lambda x: os._exit(3), seed=5, process=True)
    assert verdict.text.endswith("; it must return.\nseed=5") and verdict.seed == 5


@pytest.mark.slow
def test_grades_and_assertions_tell_the_seed(tmp_path):
    (exercise,) = find_exercises(["1"])
    path = tmp_path / "a.py"
    for source in (exercise.teacher(3), "def softmax(x):\n    return x * 2\n",
                   "def softmax(x):\n    return 1 / 0\n",
                   "import numpy as np\ndef softmax(x):\n    return x + np.random.random()\n"):
        path.write_text(source)
        feedback = judge.judge(str(path), exercise.name, 3, seconds=600.0)["feedback"]
        assert feedback.endswith(" seed=3") and "\n" not in feedback
    for fn in (wrong, raises, not_written):
        with pytest.raises(AssertionError, match=r"\nseed=7, dtype=float64$"):
            assert_matches("softmax", fn, seed=7)


STATE, RNG = [0], np.random.default_rng(0)


def noisy(x):
    STATE[0] += 1
    return right(x) + 1e-6 * STATE[0]


def sometimes_nothing(x):
    STATE[0] += 1
    return right(x) if STATE[0] % 2 else "nothing"


def another_shape(x):
    STATE[0] += 1
    return right(x)[:STATE[0] % 2 + 1]


def sometimes_nan(x):
    STATE[0] += 1
    return right(x) * (np.nan if STATE[0] % 2 else 1)


def accumulates(x, y={}):
    y[x.shape] = y.get(x.shape, 0) + right(x)
    return y[x.shape]


@pytest.mark.parametrize("fn", [noisy, sometimes_nothing, another_shape, sometimes_nan,
                                accumulates])
def test_a_function_that_answers_twice_differently_is_random(fn):
    verdict = check("softmax", fn, seed=2)
    assert not verdict and verdict.random and verdict.written and verdict.cause == ""
    assert "softmax: random: two calls with the same arguments gave different" in verdict.text
    assert "from an argument" in verdict.text and "random</strong>" in verdict._repr_html_()
    assert check("softmax", fn, seed=2) == verdict
    with pytest.raises(AssertionError, match="softmax: random: "):
        assert_matches("softmax", fn)


def test_it_is_found_on_the_level_where_it_begins():
    """And a part that is random in one place of the second gradient alone."""
    def backward(dy, x, weight, bias):
        dx, dweight, dbias = F.layer_norm_backward(dy, F.layer_norm(x, weight, bias)[1])
        if np.abs(x).max() > 100:
            dweight[-1] += RNG.random()
        return dx, dweight, dbias

    verdict = check("layer_norm_backward", backward, seed=1)
    assert verdict.random and "; passed before: plain" in verdict.text, verdict


def test_randomness_from_an_argument_and_by_rounding_is_allowed():
    assert check("dropout", lambda x, rate, rng: F.dropout(x, rate, rng), seed=1)

    def in_any_order(x):                              # as sums of several threads are
        order = RNG.permutation(x.shape[-1])
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e[..., order].sum(axis=-1, keepdims=True)

    assert check("softmax", in_any_order, seed=1)


def test_a_function_that_is_only_wrong_is_not_random():
    for fn in (wrong, raises, nan, ends):
        verdict = check("softmax", fn, seed=1)
        assert not verdict and not verdict.random, verdict
    stopped = check("softmax", endless, seed=1, seconds=0.05)
    assert not stopped.random and "it ran for more than 0.05 s" in stopped.text


def endless(x):
    while True:
        pass


def test_a_random_function_gets_no_points(tmp_path):
    (exercise,) = find_exercises(["1"])
    path = tmp_path / "a.py"
    path.write_text("import numpy as np\nfrom numformer import functional as F\n"
                    "def softmax(x):\n    return F.softmax(x)[0] + 1e-4 * np.random.random()\n")
    judgement = judge.judge(str(path), exercise.name, 3, seconds=600.0)
    assert judgement["score"] == 0 and judgement["feedback"].startswith("random: two calls")
