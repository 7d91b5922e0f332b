"""The nearest training image: the baseline of several tasks on images."""


def nearest_images(images, known):
    """For each image, the index of the nearest of those known, and the distance between them.

    Parameters
    ----------
    images : ndarray, shape (N, ...)
    known : ndarray, shape (M, ...)

    Returns
    -------
    index : ndarray of int, shape (N,)
    distance : ndarray, shape (N,)
        Euclidean.

    Examples
    --------
    >>> import numpy as np
    >>> nearest_images(np.array([[[1.0, 2.0]]]), np.array([[[5.0, 5.0]], [[1.0, 0.0]]]))
    (array([1]), array([2.]))
    """
    from scipy.spatial.distance import cdist

    size = known[0].size
    distances = cdist(images.reshape(-1, size), known.reshape(-1, size))              # (N, M)
    return distances.argmin(axis=1), distances.min(axis=1)
