"""The head and its loss, over one slice of the classes and over several, as plain Python."""

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.kernels import linear_cross_entropy as page

V = 9


@pytest.mark.parametrize("options", [{}, dict(label_smoothing=0.2, z_loss=0.3)], ids=str)
@pytest.mark.parametrize("size", [2, 3, 4, 9, 20])
def test_slices_of_the_classes_make_one_loss(size, options, rng, monkeypatch):
    """With a target at every border of a slice; twice, as a backward may run again."""
    monkeypatch.setattr(page, "SLICE", size)
    x, weight = rng.standard_normal((2 * V, 5)), rng.standard_normal((V, 5))
    targets = np.concatenate([np.arange(V), np.where(np.arange(V) % 2, -100, 3)])
    loss, saved = page.linear_cross_entropy(x, weight, targets, **options)
    expected, saved_reference = F.linear_cross_entropy(x, weight, targets, **options)
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    dx, dweight = F.linear_cross_entropy_backward(0.7, saved_reference)
    found = np.ones_like(weight)
    for times in (1, 2):
        found_dx = page.linear_cross_entropy_backward_accumulate(0.7, saved, found)
        np.testing.assert_allclose(found_dx, dx, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(found, 1 + times * dweight, rtol=1e-10, atol=1e-14)
