"""Clusters of vectors, and how pure they are: whether the members of a cluster share a topic."""

import numpy as np

from numformer.functional.losses.similarity import normalized

RUNS = 5                                              # of k-means, from different starts


def clusters_of(vectors, n_clusters, seed):
    """The cluster of each vector, by k-means of the normalized vectors: int, (N,).

    Parameters
    ----------
    vectors : ndarray, shape (N, C)
        Not 0, which has no direction.
    n_clusters, seed : int

    Raises
    ------
    ValueError
        If a vector is 0, or holds NaN or Inf.

    References
    ----------
    Arthur and Vassilvitskii (2007), "k-means++: The Advantages of Careful Seeding".

    Examples
    --------
    >>> found = clusters_of(np.array([[1.0, 0.0], [5.0, 0.1], [0.0, 1.0], [0.1, 2.0]]), 2, seed=0)
    >>> found[0] == found[1], found[1] == found[2], found[2] == found[3]
    (np.True_, np.False_, np.True_)
    """
    from scipy.cluster.vq import kmeans2

    unit, _ = normalized(vectors.astype(np.float64))                 # (N, C)
    wrong = np.flatnonzero(~np.isfinite(unit).all(axis=1) | (unit == 0).all(axis=1))
    if len(wrong):
        raise ValueError(f"clusters_of: vector {wrong[0]} is 0, or holds NaN or Inf, and has no "
                         "direction; leave it out.")
    return kmeans2(unit, n_clusters, iter=30, minit="++", seed=seed)[1]


def purity(clusters, topics):
    """The fraction of examples that have the most frequent topic of their cluster.

    It grows with the number of clusters, to 1 for one of each example, and is not 0 by chance:
    compare it with that of other vectors in as many clusters.

    Parameters
    ----------
    clusters, topics : ndarray of int, shape (N,)

    References
    ----------
    Manning, Raghavan and Schuetze (2008), "Introduction to Information Retrieval", equation 16.1.

    Examples
    --------
    >>> purity(np.array([0, 0, 0, 1, 1]), np.array([2, 2, 5, 5, 5]))
    0.8
    """
    counts = np.zeros((clusters.max() + 1, topics.max() + 1))
    np.add.at(counts, (clusters, topics), 1)
    return float(counts.max(axis=1).sum() / len(topics))


def mean_purity(vectors, topics):
    """The purity of as many clusters as there are topics, a mean of several runs of k-means."""
    n_topics = len(np.unique(topics))
    return float(np.mean([purity(clusters_of(vectors, n_topics, seed), topics)
                          for seed in range(RUNS)]))
