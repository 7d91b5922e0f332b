"""One step of each optimizer for a list of arrays, right, or with a usual mistake.

A mistake is a setting of the rule, so that two of them can be combined. Our optimizers themselves
are the reference; a test holds that the rules without a mistake are equal to them.
"""

import math

import numpy as np

from numformer.functional.orthogonal import orthogonalize

# What a mistake says, and the setting of the rule that it is
CLIPPING = {
    "gradients are not clipped": {"clip": "none"},
    "each gradient is clipped by its own norm, and not all of them by their norm together":
        {"clip": "each"},
    "the numbers of the gradients are clipped, and not their norm": {"clip": "numbers"},
    "gradients are scaled to the largest norm also where theirs is smaller": {"clip": "always"}}
MOVING = {
    "the parameters move along the gradient, and not against it": {"ascent": True},
    "the learning rate of the first step is used in all": {"first_rate": True}}
ADAM = {
    "both moments lack their bias correction": {"correct_mean": False, "correct_square": False},
    "the mean lacks its bias correction": {"correct_mean": False},
    "the mean square lacks its bias correction": {"correct_square": False},
    "epsilon is inside the root": {"epsilon": "inside"},
    "epsilon is added before the bias correction: to sqrt(v), and not to sqrt(v / (1 - beta2^t))":
        {"epsilon": "before"},
    "epsilon is missing": {"epsilon": "none"},
    "t counts from 0": {"t": -1},
    "t is one too large: it is increased twice, or counts from 2": {"t": 1},
    "t is 1 in every step": {"t": "one"},
    "beta1 and beta2 are exchanged": {"betas": "exchanged"},
    "the two moments are exchanged": {"moments": "exchanged"},
    "the factor (1 - beta1) is missing in the mean": {"mean_factor": False},
    "the factor (1 - beta2) is missing in the mean square": {"square_factor": False},
    "beta1 and (1 - beta1) are exchanged": {"mean_factor": "exchanged"},
    "beta2 and (1 - beta2) are exchanged": {"square_factor": "exchanged"},
    "the second moment is that of |g|, and not of its square": {"square": "size"},
    "the second moment is that of the mean m, and not of the gradient": {"square": "of mean"},
    "the largest mean square so far is used (AMSGrad)": {"square": "largest"},
    "the root of the mean square is missing": {"root": False},
    "moments begin at the first gradient, and not at 0": {"begin": "gradient"},
    "the moments of the step before are used: they are updated after the step": {"begin": "late"},
    "the step uses the gradient itself, and not the mean": {"mean": False}, **MOVING, **CLIPPING}
DECAY = {
    "the decay is coupled (L2): it is added to the gradient, and so passes the moments":
        {"decay": "coupled"},
    "the decay is not multiplied by the learning rate": {"decay": "without rate"},
    "there is no weight decay": {"decay": "none"},
    "the decay acts after the step, on the parameters that have moved": {"decay": "after"},
    "vectors decay, too": {"decay": "vectors"},
    "no matrix decays, but vectors do": {"decay": "vectors alone"},
    "the decay is added, and not subtracted": {"decay": "added"},
    "the parameters move along the gradient, and the decay is added": {"sign": -1},
    "the decay is multiplied by the square of the learning rate": {"decay": "rate twice"}}
SGD = {
    "the gradient is multiplied by (1 - momentum)": {"damped": True},
    "the gradient is multiplied by (1 - momentum) after the first step": {"damped": "later"},
    "the momentum is Nesterov's": {"nesterov": True},
    "there is no momentum": {"momentum": "none"},
    "the learning rate is inside the momentum": {"rate_inside": True}, **MOVING, **CLIPPING}
MUON = {
    "the momentum is not Nesterov's": {"nesterov": False},
    "the factor sqrt(max(1, F / C)) is missing": {"shape": "none"},
    "the factor is sqrt(max(1, C / F)): the shape is transposed": {"shape": "transposed"},
    "the factor is 0.2 sqrt(max(C, F))": {"shape": "largest"},
    "the momentum is not orthogonalized": {"orthogonal": False},
    "the ratio of learning rates is missing": {"ratio": "none"},
    "the decay of hidden matrices lacks the ratio": {"ratio": "step alone"},
    "hidden matrices move by AdamW": {"hidden": False},
    "there is no momentum": {"momentum": "none"}}
MISTAKES = {"adam": ADAM, "adamw": {**DECAY, **ADAM}, "sgd": SGD,
            "muon": {**MUON, **DECAY, **ADAM}}


# Other values of settings, of papers and libraries
VALUES = {"beta1": (0.0, 0.5, 0.8, 0.85, 0.9, 0.95, 0.99),
          "beta2": (0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999),
          "epsilon": (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 1e-16),
          "weight_decay": (1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3),
          "momentum": (0.0, 0.5, 0.8, 0.9, 0.95, 0.99),
          "max_norm": (0.0, 0.1, 0.5, 1.0, 5.0, 10.0)}


def other_values(settings):
    """(setting, another usual value) of all of them."""
    for key, values in VALUES.items():
        yield from ((key, value) for value in values if key in settings and value != settings[key])


def moved(name, parameters, gradients, state, t, learning_rate, settings, mistake):
    """New arrays after a step.

    Parameters
    ----------
    name : "adam", "adamw", "sgd" or "muon"
    parameters, gradients : list of ndarray
    state : dict
        Moments by the number of the array; changed in place.
    t : int
        From 1.
    learning_rate : float
    settings, mistake : dict
    """
    rate = state.setdefault("first", learning_rate) if mistake.get("first_rate") else learning_rate
    rate *= mistake.get("sign", 1)
    gradients = _clipped(gradients, settings["max_norm"], mistake.get("clip", "all"))
    gradients = [-g for g in gradients] if mistake.get("ascent") else gradients
    found = []
    for k, (p, g) in enumerate(zip(parameters, gradients)):
        own = state.setdefault(k, {})
        if name == "sgd":
            found.append(_sgd(p, g, own, rate, settings, mistake))
        elif name == "muon" and p.ndim == 2 and mistake.get("hidden", True):
            found.append(_muon(p, g, own, rate, settings, mistake))
        else:
            decay = name != "adam"
            found.append(_adamw(p, g, own, t, rate, settings, mistake, decay))
    return found


def _clipped(gradients, most, how):
    if not most or how == "none":
        return gradients
    if how == "numbers":
        return [np.clip(g, -most, most) for g in gradients]
    norms = [math.sqrt(float((g * g).sum())) for g in gradients]
    if how != "each":
        norms = [math.sqrt(sum(norm * norm for norm in norms))] * len(gradients)
    if how == "added":                                # as PyTorch does
        return [g * min(1.0, most / (norm + 1e-6)) for g, norm in zip(gradients, norms)]
    return [g * (most / norm if norm > most or how == "always" else 1)
            for g, norm in zip(gradients, norms)]


def _decays(p, settings, how):
    """Whether an array decays."""
    if how in ("vectors", "vectors alone"):
        return p.ndim < 2 or how == "vectors"
    return p.ndim >= 2 or settings["decay_vectors"]


def _adamw(p, g, own, t, rate, settings, mistake, decays):
    beta1, beta2, epsilon = (settings[key] for key in ("beta1", "beta2", "epsilon"))
    how = mistake.get("decay", "decoupled")
    decay = settings["weight_decay"] if decays and _decays(p, settings, how) else 0.0
    if mistake.get("betas") == "exchanged":
        beta1, beta2 = beta2, beta1
    shift = mistake.get("t", 0)
    t = 1 if shift == "one" else t + shift
    if how == "coupled":
        g = g + decay * p
    if how in ("decoupled", "vectors", "vectors alone"):
        p = p * (1 - rate * decay)
    elif how == "rate twice":
        p = p * (1 - rate * rate * decay)
    elif how in ("without rate", "added"):
        p = p * (1 - decay if how == "without rate" else 1 + rate * decay)

    begin = mistake.get("begin")
    first = begin == "gradient" and not own
    m, v = own.get("m", g if first else 0.0), own.get("v", g * g if first else 0.0)
    used = m, v
    m = _mean(m, g, beta1, mistake.get("mean_factor", True))
    of = {"size": np.abs(g), "of mean": m * m}.get(mistake.get("square"), g * g)
    v = _mean(v, of, beta2, mistake.get("square_factor", True))
    own["m"], own["v"] = m, v
    if mistake.get("square") == "largest":
        v = own["largest"] = np.maximum(v, own.get("largest", 0.0))
    if begin == "late":
        m, v = (x + np.zeros_like(g) for x in used)
    if mistake.get("moments") == "exchanged":
        m, v = v, np.abs(m)
    if not mistake.get("mean", True):
        m = g
    with np.errstate(all="ignore"):
        one, two = 1 - beta1 ** t, 1 - beta2 ** t
        if mistake.get("correct_mean", True) and mistake.get("mean", True):
            m = m / one
        corrected = mistake.get("correct_square", True)
        place = mistake.get("epsilon", "outside")
        if place == "before" and corrected:
            root = (np.sqrt(v) + epsilon) / math.sqrt(two) if two > 0 else np.sqrt(v) * np.inf
        else:
            v = v / two if corrected else v
            inside = epsilon if place == "inside" else 0.0
            root = np.sqrt(v + inside) if mistake.get("root", True) else v + inside
            root = root + (epsilon if place in ("outside", "before") else 0.0)
        new = p - rate * np.divide(m, root, out=np.zeros_like(g), where=root != 0)
    return new * (1 - rate * decay) if how == "after" else new


def _mean(old, new, beta, factor):
    if factor == "exchanged":
        return (1 - beta) * old + beta * new
    return beta * old + ((1 - beta) if factor else 1.0) * new


def _sgd(p, g, own, rate, settings, mistake):
    mu = 0.0 if mistake.get("momentum") == "none" else settings["momentum"]
    g = rate * g if mistake.get("rate_inside") else g
    damped = {True: True, "later": "b" in own}.get(mistake.get("damped"), False)
    b = mu * own.get("b", 0.0) + (1 - mu if damped else 1.0) * g
    own["b"] = b
    direction = g + mu * b if mistake.get("nesterov") else b
    return p - (1.0 if mistake.get("rate_inside") else rate) * direction


def _muon(p, g, own, rate, settings, mistake):
    mu = 0.0 if mistake.get("momentum") == "none" else settings["momentum"]
    own["b"] = b = mu * own.get("b", 0.0) + g
    direction = g + mu * b if mistake.get("nesterov", True) else b
    if mistake.get("orthogonal", True):
        direction = orthogonalize(direction, settings["iterations"])
    C, F = p.shape
    factor = {"none": 1.0, "transposed": math.sqrt(max(1, C / F)),
              "largest": 0.2 * math.sqrt(max(C, F))}.get(
                  mistake.get("shape"), math.sqrt(max(1, F / C)))
    ratio = mistake.get("ratio")
    quick = rate * (1.0 if ratio == "none" else settings["ratio"])
    decaying = rate if ratio in ("none", "step alone") else quick
    decay = {"none": 0.0, "without rate": settings["weight_decay"], "vectors alone": 0.0,
             "added": -decaying * settings["weight_decay"]}.get(
                 mistake.get("decay"), decaying * settings["weight_decay"])
    return p * (1 - decay) - quick * factor * direction
