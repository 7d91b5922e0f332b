"""Fixtures that every test may use, and small things that no test may leave behind."""

import os
from unittest import mock

import hypothesis
import numpy as np
import pytest

from command import SMALL, TEXT
from numformer import backend
from numformer.cli import main
from numformer.commands import train
from numformer.commands.shared.output import draw_pictures

collect_ignore_glob = ["conftest.py", "*/conftest.py"]       # no doctests; two files of one name
# The same examples in every run; and a busy machine is no failure
hypothesis.settings.register_profile(
    "steady", derandomize=True, database=None, deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("steady")


@pytest.fixture
def rng():
    return np.random.default_rng(1234)


@pytest.fixture(autouse=True)
def threads_as_before():
    with backend.threads(None):
        yield


PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"


@pytest.fixture(autouse=PLAIN)
def no_warnings_of_plain_kernels():
    """Scalars of Python warn of an overflow where loops of Numba do not."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "fox.txt"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture(scope="session")
def run(tmp_path_factory, text):
    """A finished run of 30 steps."""
    out = tmp_path_factory.mktemp("runs") / "fox"
    with mock.patch.object(train, "draw_pictures", draw_pictures):    # whichever test is first
        assert main(["train", "--data", text, "--out", str(out), "--steps", "30",
                     "--eval-every", "10", "--save-every", "10", *SMALL]) == 0
    return out
