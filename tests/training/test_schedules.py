"""Learning-rate schedules: what they do by default, and after the last step."""

import pytest

from numformer.training import SCHEDULES


@pytest.mark.parametrize("name", SCHEDULES)
def test_by_default_there_is_no_warm_up_and_the_floor_is_0(name):
    schedule = SCHEDULES[name]
    assert schedule(0, 4, peak=1.0) == 1
    assert [schedule(step, 4, 1.0) for step in range(9)] == [
        schedule(step, 4, 1.0, floor=0.0, warmup=0) for step in range(9)]


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_the_floor_is_reached_at_the_last_step_and_kept(name):
    for steps, warmup in ((4, 0), (4, 3), (1, 0)):
        rates = [SCHEDULES[name](step, steps, 1.0, 0.25, warmup)
                 for step in range(steps, steps + 5)]
        assert rates == pytest.approx([0.25] * 5, abs=1e-15)
