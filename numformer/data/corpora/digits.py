"""Handwritten digits: 1,797 grey images of 8 x 8 pixels that come with scikit-learn."""

from typing import NamedTuple

import numpy as np


class Digits(NamedTuple):
    """Images of digits with their labels: a training set and a test set.

    Parameters
    ----------
    train_images, test_images : ndarray of float32, shapes (1442, 8, 8, 1) and (355, 8, 8, 1)
        How dark each pixel is, 0 to 1.
    train_labels, test_labels : ndarray of int64, shapes (1442,) and (355,)
        0 to 9.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits():
    """The digits with a fixed split: of each digit, every fifth image is in the test set.

    So all digits are equally frequent in both sets. Adjacent images are often by the same writer,
    so writers are in both sets, too: the test measures new images, not new handwriting.

    Returns
    -------
    Digits

    Raises
    ------
    ImportError
        If scikit-learn is missing.

    References
    ----------
    Alpaydin and Kaynak (1998), "Optical Recognition of Handwritten Digits", UCI Machine Learning
    Repository, its test set.

    Examples
    --------
    >>> digits = load_digits()
    >>> digits.train_images.shape, digits.test_images.shape, digits.test_labels[:8]
    ((1442, 8, 8, 1), (355, 8, 8, 1), array([5, 0, 9, 8, 7, 1, 2, 6]))
    """
    try:
        from sklearn import datasets
    except ImportError:
        raise ImportError("load_digits: the images come with scikit-learn, in the data extra: "
                          "pip install 'numformer[data]'.") from None
    found = datasets.load_digits()
    images = (found.images / 16).astype(np.float32)[..., None]        # (N, 8, 8, 1)
    labels = found.target.astype(np.int64)
    test = np.zeros(len(labels), bool)
    for digit in range(10):
        test[np.flatnonzero(labels == digit)[4::5]] = True
    return Digits(images[~test], labels[~test], images[test], labels[test])
