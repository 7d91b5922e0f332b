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


def nearest_neighbour_accuracy(images, labels, test_images, test_labels):
    """Accuracy of the label of the training image at the smallest distance.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> nearest_neighbour_accuracy(images, np.array([3, 7]), images * 0.8, np.array([3, 3]))
    0.5
    """
    nearest, _ = nearest_images(test_images, images)
    return float((labels[nearest] == test_labels).mean())
