"""The loss on a plane through a trained model."""

import numpy as np


def loss_surface(model, directions, alphas, betas, loss):
    r"""The loss at points of a plane through the parameters of a model.

    .. math:: f(\alpha, \beta) = L(\theta + \alpha d_1 + \beta d_2)

    The parameters are afterwards as before, also after an error.

    Parameters
    ----------
    model : Layer
    directions : two dict of str to ndarray
        d_1 and d_2 by the names of parameters; see `filter_normalized_direction` and
        `path_directions`.
    alphas, betas : sequence of float
    loss : callable
        Without arguments; returns the loss of the model as it is then, for example
        ``lambda: mean_loss(model, batches)``.

    Returns
    -------
    ndarray of float64, shape (len(betas), len(alphas))
        Infinite where the loss is not finite or too large.

    Raises
    ------
    ValueError
        If there are not two directions with the names and shapes of the parameters.

    References
    ----------
    Li et al. (2018), "Visualizing the Loss Landscape of Neural Nets", section 3; Goodfellow,
    Vinyals and Saxe (2015), "Qualitatively characterizing neural network optimization problems".

    Examples
    --------
    >>> from numformer.layers import Linear
    >>> layer = Linear(2, 1, np.random.default_rng(0), bias=False)
    >>> layer.weight.data[:] = 0
    >>> one, two = ({"weight": np.array(d, np.float32)[:, None]} for d in ([1, 0], [0, 1]))
    >>> loss_surface(layer, (one, two), [0, 1, 2], [0, 3], lambda: float(layer.weight.data.sum()))
    array([[0., 1., 2.],
           [3., 4., 5.]])
    """
    parameters = dict(model.named_parameters())
    shapes = {name: parameter.data.shape for name, parameter in parameters.items()}
    if len(directions) != 2 or any({name: np.shape(d) for name, d in direction.items()} != shapes
                                   for direction in directions):
        raise ValueError("loss_surface: directions must be two dicts with an array for each "
                         f"parameter of the {type(model).__name__}; make them with "
                         "filter_normalized_direction or path_directions.")
    kept = {name: parameter.data.copy() for name, parameter in parameters.items()}
    first, second = directions
    surface = np.empty((len(betas), len(alphas)))
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for (j, i), _ in np.ndenumerate(surface):
                for name, parameter in parameters.items():
                    parameter.data[...] = (kept[name] + alphas[i] * first[name]
                                           + betas[j] * second[name])
                surface[j, i] = _finite(loss)
    finally:
        for name, parameter in parameters.items():
            parameter.data[...] = kept[name]
    return surface


def _finite(loss):
    """A loss, or Inf: models refuse parameters that overflow with an ArithmeticError."""
    try:
        value = float(loss())
    except ArithmeticError:
        return np.inf
    return value if np.isfinite(value) else np.inf
