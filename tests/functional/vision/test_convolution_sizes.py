"""Windows that just fit into padded images, and those that do not."""

import numpy as np
import pytest

from numformer import functional as F


@pytest.mark.parametrize("K, L", [(5, 1), (1, 6), (5, 6)])
def test_a_window_may_be_as_large_as_the_padded_image(K, L):
    images = np.ones((1, 3, 4, 1))
    y, _ = F.convolution_2d(images, np.ones((K, L, 1, 2)), padding=1)
    assert y.shape == (1, 6 - K, 7 - L, 2)


@pytest.mark.parametrize("K, L", [(6, 1), (1, 7)])
def test_a_larger_one_is_refused(K, L):
    with pytest.raises(ValueError, match="with padding=1; use smaller windows"):
        F.convolution_2d(np.ones((1, 3, 4, 1)), np.ones((K, L, 1, 2)), padding=1)
