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

from numformer.testing.golden import GoldenCase, read_golden, write_golden
from numformer.testing.matches import assert_matches

__all__ = ["GoldenCase", "assert_matches", "read_golden", "write_golden"]
