"""Directions in the space of a model's parameters: random ones, and those of a training's path."""

import numpy as np

from numformer.checks import check_generator
from numformer.layers import Embedding, LMHead
from numformer.parameter import Layer
from numformer.underflow import underflow_is_zero


@underflow_is_zero
def filter_normalized_direction(model, rng):
    r"""A random direction whose filters have the norms of the model's filters.

    .. math:: d_{i} \leftarrow \frac{d_{i}}{\lVert d_{i} \rVert} \lVert w_{i} \rVert

    A filter i is what makes one output number of a linear map, a column of its matrix, or a row of
    a table of vectors. So a step of 1 changes every filter by as much as it is long, however
    the weights are scaled. Biases and the weights of norms stay as they are.

    Parameters
    ----------
    model : Layer
    rng : numpy.random.Generator

    Returns
    -------
    dict of str to ndarray
        By the name of the parameter, an array of its shape.

    Raises
    ------
    ValueError, TypeError
        If the model has no parameters, or there is no generator.

    References
    ----------
    Li, Xu, Taylor, Studer and Goldstein (2018), "Visualizing the Loss Landscape of Neural Nets",
    section 4.

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> layer = Linear(3, 2, np.random.default_rng(0))
    >>> direction = filter_normalized_direction(layer, np.random.default_rng(1))
    >>> columns = [np.linalg.norm(x, axis=0) for x in (direction["weight"], layer.weight.data)]
    >>> bool(np.allclose(*columns)), direction["bias"]
    (True, array([0., 0.], dtype=float32))
    """
    check_generator("filter_normalized_direction", rng, optional=False)
    if not isinstance(model, Layer) or not len(list(model.parameters())):
        raise ValueError(f"filter_normalized_direction: {type(model).__name__} has no parameters; "
                         "give a Layer.")
    tables = {id(layer.weight) for _, layer in model.named_layers()
              if isinstance(layer, (Embedding, LMHead))
              or hasattr(layer, "vectors") and hasattr(layer, "weight")}      # of learned positions
    direction = {}
    for name, parameter in model.named_parameters():
        w = parameter.data
        if w.ndim < 2:
            direction[name] = np.zeros_like(w)
            continue
        in_rows = id(parameter) in tables or w.size == w.shape[-1]    # a single vector is a row
        axes = (w.ndim - 1,) if in_rows else tuple(range(w.ndim - 1))
        d = rng.standard_normal(w.shape)
        size, wanted = (np.sqrt((x.astype(np.float64) ** 2).sum(axis=axes, keepdims=True))
                        for x in (d, w))
        direction[name] = (d / size * wanted).astype(w.dtype)
    return direction


@underflow_is_zero
def path_directions(path):
    r"""The two directions in which a training moved most, and its way in their plane.

    .. math:: M = [\theta_0 - \theta_n; \dots; \theta_{n-1} - \theta_n] = U \Sigma V^\top

    The directions are the first two right singular vectors: the principal components of the path
    with the trained model as the origin, as in the paper.

    Parameters
    ----------
    path : list of dict of str to ndarray
        Parameters by name at several steps; the last are those of the trained model.

    Returns
    -------
    directions : list of two dict of str to ndarray
        Of norm 1 over all parameters.
    coordinates : ndarray, shape (len(path), 2)
        Of every state; the last is (0, 0).
    shares : ndarray, shape (2,)
        Of the sum of all squared distances to the trained model.

    Raises
    ------
    ValueError
        If there are fewer than three states, or they have different parameters.

    References
    ----------
    Li et al. (2018), section 7.2.

    Examples
    --------
    >>> path = [{"w": np.array(w)} for w in ([3.0, 0.0], [0.0, 1.0], [0.0, 0.0])]
    >>> directions, coordinates, shares = path_directions(path)
    >>> directions[0]["w"].tolist(), coordinates.tolist(), shares.tolist()
    ([1.0, 0.0], [[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.9, 0.1])
    """
    if len(path) < 3:
        raise ValueError(f"path_directions: path has {len(path)} states; give three or more, such "
                         "as the snapshots of a training.")
    last = path[-1]
    if any({name: x.shape for name, x in state.items()}
           != {name: x.shape for name, x in last.items()} for state in path):
        raise ValueError("path_directions: states of path have different parameters; give those of "
                         "one training.")
    rows = np.array([np.concatenate([(state[name] - last[name]).ravel() for name in last])
                     for state in path[:-1]], np.float64)             # (n, P)
    values, vectors = np.linalg.eigh(rows @ rows.T)       # of M M': n x n instead of P x P
    values, vectors = np.maximum(values[::-1][:2], 0), vectors[:, ::-1][:, :2]
    flat = vectors.T @ rows / np.maximum(np.sqrt(values), 1e-12)[:, None]         # (2, P)
    # signs that do not depend on the library
    flat *= np.where(flat.sum(axis=1) < 0, -1, 1)[:, None]
    coordinates = np.concatenate([rows @ flat.T, np.zeros((1, 2))])
    ends = np.cumsum([x.size for x in last.values()])[:-1]
    directions = [{name: part.reshape(last[name].shape).astype(last[name].dtype)
                   for name, part in zip(last, np.split(each, ends))} for each in flat]
    total = (rows ** 2).sum()
    return directions, coordinates, values / (total if total else 1.0)
