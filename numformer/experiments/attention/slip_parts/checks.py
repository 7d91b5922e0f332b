"""Which test notices a misprint: one of shapes, one of gradients, or only one with a reference."""

import numpy as np

from numformer.analysis import capture
from numformer.layers import MultiHeadAttention
from numformer.models import Decoder, DecoderConfig
from numformer.verify import MODEL_BOUND, gradcheck
from numformer.verify.errors import largest_difference

IDS = np.array([[3, 0, 4, 1], [2, 4, 1, 3], [0, 1, 2, 4]])            # no token twice in a row
V = 5


def noticed_by(change, write_out, options):
    """Run four tests on a small decoder with a misprint, and on the same one without.

    Parameters
    ----------
    change, write_out : callable
        Put the misprint into a `Decoder`; give a right one the attention that is written out.
    options : dict
        Of the config of the decoder, but for its sizes.

    Returns
    -------
    dict of str to bool
        Whether a test notices. ``shapes``: a parameter, the logits or an array of attention has
        another shape, or is missing. ``gradcheck``: the backward is not that of the forward.
        ``future``: the gradient of the first position's logits reaches a later token. ``unused``:
        a column of a weight has no gradient. ``reference``: with equal weights, logits differ.
    """
    right, printed = _decoder(options), _decoder(options)
    change(printed)
    write_out(right)
    logits = printed(IDS)
    return {
        "shapes": _shapes(right) != _shapes(printed),
        "gradcheck": not gradcheck(printed, [IDS[:1]], bound=MODEL_BOUND).ok,
        "future": _reaches_future(printed),
        "unused": bool(_unused_columns(printed) - _unused_columns(right)),
        "reference": largest_difference(logits, right(IDS)) > 1e-6,
    }


def first_notice(noticed):
    """The cheapest of three kinds of tests that notices: shapes, gradients or reference.

    Examples
    --------
    >>> first_notice(dict(shapes=False, gradcheck=False, future=True, unused=False, reference=True))
    'gradients'
    """
    if noticed["shapes"]:
        return "shapes"
    if noticed["gradcheck"] or noticed["future"] or noticed["unused"]:
        return "gradients"
    return "reference" if noticed["reference"] else "none"


def _decoder(options):
    config = DecoderConfig(**{**options, "dtype": "float64", "context_length": 4, "n_layers": 1,
                              "n_heads": 2, "d_model": 4, "d_hidden": 6,
                              "feedforward": "gelu"}, vocab_size=V)
    rng = np.random.default_rng(2)
    model = Decoder(config, rng)
    for parameter in model.parameters():                              # far from the initial weights
        parameter.data[...] = 0.5 * rng.standard_normal(parameter.data.shape)
    return model


def _shapes(model):
    """Shapes of the parameters, the logits and the arrays of attention, by name."""
    found = {name: parameter.data.shape for name, parameter in model.named_parameters()}
    with capture(model, MultiHeadAttention) as calls:
        found["logits"] = model(IDS).shape
    call, = calls
    q, k, _ = call.layer.queries_and_keys(call.saved)
    arrays, _ = call.layer.positions.steps(q, k, call.layer.values(call.saved))
    return found | {name: array.shape for name, array in arrays.items()}


def _reaches_future(model):
    """Whether the gradient of features at the first position reaches tokens after it."""
    model.zero_grad()
    x, saved = model.features(IDS[:1])
    dx = np.zeros_like(x)
    dx[:, 0] = np.arange(1, x.shape[-1] + 1)
    model.features_backward(dx, saved, 0.0)
    return bool(np.any(model.embedding.weight.grad[IDS[0, 1:]]))


def _unused_columns(model):
    """Names of weights with a column without gradient."""
    model.zero_grad()
    logits, saved = model.forward(IDS)
    model.backward(np.random.default_rng(3).standard_normal(logits.shape), saved)
    return {name for name, parameter in model.named_parameters()
            if not np.all(np.abs(parameter.grad).max(axis=0) > 1e-12)}
