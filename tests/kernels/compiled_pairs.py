"""Arguments for every function with a compiled version, and both passes in one call."""

import numpy as np

from numformer import backend
from numformer import functional as F

PAIR_NAMES = sorted(name for name in backend.compiled_versions() if hasattr(F, f"{name}_backward"))


def arguments(name, shape, rng):
    """Arguments in float64 for vectors of that shape, and keyword arguments at random."""
    x, other = 2 * rng.standard_normal((2, *shape))
    weight, bias = 1 + 0.3 * rng.standard_normal((2, shape[-1]))
    if name in ("layer_norm", "layer_norm_outside"):
        return (x, weight, bias), [{}, dict(epsilon=0.1)][int(rng.integers(2))]
    if name in ("rms_norm", "rms_norm_outside"):
        return (x, weight), [{}, dict(epsilon=0.1)][int(rng.integers(2))]
    if name == "gated_linear_unit":
        return (x, other, str(rng.choice(list(F.ACTIVATIONS)))), {}
    if name == "cross_entropy":
        targets = rng.integers(0, shape[-1], shape[:-1])
        if targets.size > 1:
            targets.flat[::3] = -100
            targets.flat[-1] = 0
        choices = [{}, dict(label_smoothing=0.2, z_loss=0.3)]
        return (x, targets), choices[int(rng.integers(2))]
    if name == "linear_cross_entropy":
        weight, targets = rng.standard_normal((9, shape[-1])), rng.integers(0, 9, shape[:-1])
        weight = np.asfortranarray(weight) if rng.random() < 0.5 else weight
        if targets.size > 1:
            targets.flat[::3] = -100
            targets.flat[-1] = 0
        choices = [{}, dict(label_smoothing=0.2, z_loss=0.3)]
        return (x, weight, targets), choices[int(rng.integers(2))]
    if name == "rotary":
        x = 2 * rng.standard_normal((2, 3, *shape[-1:], 2 * (shape[-1] // 2 + 1)))
        angles = F.rotary_angles(3, 3 + x.shape[-2], x.shape[-1])
        return (x, *angles, str(rng.choice(["half", "interleaved"]))), {}
    if name == "embedding":
        return (rng.integers(0, 60, shape), rng.standard_normal((60, shape[-1] + 2))), {}
    if name == "linear":                # a single vector is not left to BLAS
        weight = rng.standard_normal((shape[-1], 14))
        weight = [weight[:, :7].copy(), np.asfortranarray(weight[:, :7]), weight[:, ::2],
                  weight[:, 3:10]][int(rng.integers(4))]
        vectors = x[(0,) * (x.ndim - 1)] if rng.random() < 0.5 else x
        return (vectors, weight, [None, bias[0] + np.arange(7.0)][int(rng.integers(2))]), {}
    if name in ("feed_forward", "gated_feed_forward"):
        return maps(name, x, rng), {}
    if name == "head_projections":
        return heads(x, rng), [{}, dict(epsilon=0.1)][int(rng.integers(2))]
    if name == "dropout":
        return (x, 0.3, "rng"), {}
    if name == "residual_dropout":
        return (x, other, 0.3, "rng"), {}
    if name in ("residual_layer_norm", "residual_rms_norm"):
        arrays = (x, other, weight, bias) if "layer" in name else (x, other, weight)
        return (*arrays, 0.1, float(rng.choice([0.0, 0.3])), "rng"), {}
    return (x,), dict(beta=1.7) if name == "swish" else {}


def maps(name, x, rng):
    """x with weights and biases of several linear maps; some biases are None."""
    C, F_, E = x.shape[-1], 1 + int(rng.integers(40)), 5
    widths = {"feed_forward": [(C, F_), (F_, E)],
              "gated_feed_forward": [(C, F_), (C, F_), (F_, E)]}[name]
    return [x, *weights_and_biases(widths, rng), str(rng.choice(list(F.ACTIVATIONS)))]


def weights_and_biases(widths, rng):
    """One after the other; some biases are None, and some weights stored by columns."""
    given = []
    for width in widths:
        weight = rng.standard_normal(width) / width[0] ** 0.5
        bias = rng.standard_normal(width[1]) if rng.random() < 0.5 else None
        given += [np.asfortranarray(weight) if rng.random() < 0.5 else weight, bias]
    return given


def heads(x, rng):
    """x (B, T, C), maps to heads, and norms and a rotation, which may be None."""
    x = x.reshape(-1, *x.shape[-2:]) if x.ndim > 1 else x[None, None]
    (_, T, C), G, D = x.shape, 1 + int(rng.integers(3)), 2 * (1 + int(rng.integers(20)))
    widths = [(C, 2 * G * D), (C, G * D), (C, G * D)]
    norms = [1 + 0.3 * rng.standard_normal(D) if rng.random() < 0.5 else None for _ in range(2)]
    rotation = (*F.rotary_angles(3, 3 + T, D), str(rng.choice(["half", "interleaved"])))
    rotation = rotation if rng.random() < 0.7 else None
    return [x, *weights_and_biases(widths, rng), *norms, D, rotation]


def run(functions, name, given, options, dy=None):
    """All outputs and all gradients."""
    given = [np.random.default_rng(8) if isinstance(x, str) and x == "rng" else x for x in given]
    y, saved = getattr(functions, name)(*given, **options)
    ys, rng = y if isinstance(y, tuple) else (y,), np.random.default_rng(9)
    if dy is None:
        dys = [rng.standard_normal(np.shape(y)) if np.shape(y) else np.float64(0.7) for y in ys]
    else:
        dys = [dy]
    dys = tuple(dy.astype(y.dtype) for dy, y in zip(dys, ys))
    gradients = getattr(functions, f"{name}_backward")(
        dys if isinstance(y, tuple) else dys[0], saved)
    return [*ys, *(gradients if isinstance(gradients, tuple) else (gradients,))]


def cast(given, dtype):
    return [x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
            for x in given]
