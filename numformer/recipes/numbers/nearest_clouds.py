"""The nearest of known point clouds, in two senses that no order of points changes."""

import numpy as np


def nearest_by_profile(clouds, known):
    """For each cloud, the number of the known one with the nearest profile: (N,).

    The profile are the sorted heights, distances from the third axis and from the origin: turning a
    cloud about that axis does not change it, as the rule of the shapes does.

    Parameters
    ----------
    clouds : ndarray, shape (N, T, 3)
    known : ndarray, shape (M, T, 3)
    """
    from scipy.spatial.distance import cdist

    return cdist(_profiles(clouds), _profiles(known)).argmin(axis=1)


def _profiles(clouds):
    lengths = (clouds[..., 2], np.hypot(clouds[..., 0], clouds[..., 1]),
               np.linalg.norm(clouds, axis=-1))
    return np.concatenate([np.sort(each, axis=1) for each in lengths], axis=1)


def nearest_by_distance(clouds, known):
    """The same by the Chamfer distance: the mean distance of a point to the nearest of the other.

    References
    ----------
    Fan, Su and Guibas (2017), "A Point Set Generation Network", section 3.2.
    """
    from scipy.spatial.distance import cdist

    M, T = known.shape[:2]
    nearest, flat = [], known.reshape(M * T, 3)
    for cloud in clouds:
        distances = cdist(cloud, flat).reshape(-1, M, T)              # (T, M, T)
        chamfer = distances.min(axis=0).mean(axis=1) + distances.min(axis=2).mean(axis=0)
        nearest.append(chamfer.argmin())
    return np.array(nearest)
