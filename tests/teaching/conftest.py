"""Functions of these tests run in the test's process; a process for each would take 15 ms a check.

Those that need one of their own say so (test_isolation.py).
"""

import pytest

from numformer import backend
from numformer.teaching import isolation

# Functions by others, some of PyTorch: no doctests, and it may not be installed
collect_ignore_glob = ["samples/[!t]*.py"]


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    monkeypatch.setattr(isolation, "may_fork", lambda: False)


@pytest.fixture(autouse=True)
def no_kernels():
    """As in the judge: a cold cache of kernels costs a minute."""
    with backend.using("numpy"):
        yield
