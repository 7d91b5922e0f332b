"""The digits: a fixed split without duplicates."""

import sys

import numpy as np
import pytest

from numformer.data import load_digits


def test_the_split_is_fixed_and_balanced():
    pytest.importorskip("sklearn")
    digits = load_digits()
    assert digits.train_images.shape == (1442, 8, 8, 1)
    assert digits.test_images.shape == (355, 8, 8, 1)
    assert digits.train_images.dtype == np.float32
    assert 0 == digits.train_images.min() < digits.train_images.max() == 1
    assert set(digits.test_labels) == set(digits.train_labels) == set(range(10))
    shares = np.bincount(digits.test_labels) / np.bincount([*digits.train_labels,
                                                            *digits.test_labels])
    assert shares.min() > 0.19 and shares.max() <= 0.2, "every digit is as frequent in both parts"
    both = np.concatenate([digits.train_images, digits.test_images]).reshape(1797, 64)
    assert len(np.unique(both, axis=0)) == 1797, "no image of the test was seen in training"


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"data extra: pip install 'numformer\[data\]'"):
        load_digits()
