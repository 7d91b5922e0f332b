"""One training step does not go through more files, and back and forth more often, than it did."""

from step_trace import step_trace, trace_of

# Lower these when they fall: the aim is 25 files and 150 switches
MOST_FILES, MOST_SWITCHES = 54, 267


def test_a_step_stays_as_short_as_it_is():
    found = step_trace()
    assert len(found.files) <= MOST_FILES and sum(found.switches.values()) <= MOST_SWITCHES, found


def test_a_call_from_another_file_is_a_switch():
    from numformer.functional import linear
    import numpy as np

    found = trace_of(lambda: linear(np.ones((1, 2)), np.ones((2, 3))))
    assert found.switches == {("functional/linear.py", "checks.py"): 1}
    assert set(found.files) == {"functional/linear.py", "checks.py"}
