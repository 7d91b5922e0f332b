"""The pytest plugin: a fixture, and a seed for all that use it (``pytest --numformer-seed N``).

pytest loads it where numformer is installed; otherwise ``pytest -p numformer.testing.plugin``.
"""

from functools import partial

import pytest


def pytest_addoption(parser):
    parser.addoption("--numformer-seed", type=int, default=0, metavar="N",
                     help="seed of the problems of the fixture assert_matches (default: 0)")


@pytest.fixture
def assert_matches(request):
    """`numformer.testing.assert_matches` with the seed of the command line.

    ::

        def test_my_layer_norm(assert_matches):
            assert_matches("layer_norm", my_layer_norm, dtype="float32")
    """
    from numformer.testing.matches import assert_matches

    return partial(assert_matches, seed=request.config.getoption("--numformer-seed", default=0))
