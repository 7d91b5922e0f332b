"""Test an implementation elsewhere (PyTorch, JAX, C) against numformer's functions and gradients.

>>> import numpy as np
>>> from numformer.testing import assert_matches
>>> def layer_norm(x, weight, bias):
...     x = x - x.mean(axis=-1, keepdims=True)
...     return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight
>>> assert_matches("layer_norm", layer_norm)  # doctest: +ELLIPSIS
Traceback (most recent call last):
AssertionError: layer_norm: y is wrong in ... entries, first at (0, 0, 0): ...
"""

from importlib import import_module

__all__ = ["GoldenCase", "assert_layer_matches", "assert_matches", "assert_steps_match",
           "read_golden", "write_golden"]
_HOMES = {"GoldenCase": "golden_case", "assert_matches": "matches",
          "assert_layer_matches": "layers.match", "assert_steps_match": "steps.match_steps"}


def __getattr__(name):
    """On first use: pytest imports this package at its start, for the plugin."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'golden')}"), name)
