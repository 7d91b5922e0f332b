"""Costs of a model: the sum of what its layers describe."""

import numpy as np


def n_parameters(layer):
    """The number of parameters of a layer."""
    return sum(parameter.data.size for parameter in layer.parameters())


def flops_of(layer, keys):
    """FLOPs for one vector that passes all of a layer, whose queries attend to `keys` keys.

    A multiplication and an addition are two operations. The layers that a vector does not pass,
    such as the other experts, are counted too; `costs_per_token` leaves them out.
    """
    described = [part.describe() for _, part in layer.named_layers()]
    return 2 * sum(each.weights + each.keys * keys for each in described)


def costs_of_images(model, flops):
    """The costs of a model of images, given the FLOPs of its forward for one image."""
    return {"parameters": n_parameters(model), "flops_per_image": flops,
            "training_flops_per_image": 3 * flops}


def costs_per_token(model, T=None):
    """The costs of a language model at its full context of T tokens.

    Attention is causal and has a cache, unless a layer around it says otherwise in `keys_seen`.

    Parameters
    ----------
    model : Layer
        With a config that has a dtype.
    T : int, optional
        ``context_length`` of the config unless given.

    Returns
    -------
    dict
        ``parameters``; ``active_parameters``, those used for a token; ``flops_per_token`` of a
        forward pass; ``training_flops_per_token``; ``kv_bytes_per_token``, the growth of the KV
        cache; ``state_bytes``, the recurrent state of a sequence.
    """
    T = model.config.context_length if T is None else T
    seen = {}                                         # the outermost layer that says so decides
    for _, part in model.named_layers():
        for attention, found in part.keys_seen(T).items():
            seen.setdefault(id(attention), found)
    parameters = active = n_parameters(model)
    flops = cache = state = 0
    for _, part in model.named_layers():
        each = part.describe()
        keys, cached = seen.get(id(part), ((T + 1) / 2, True))
        flops += 2 * (each.weights + each.keys * keys)
        cache += each.cache if cached else 0
        state += each.state
        for layer in each.idle:
            active -= n_parameters(layer)
            flops -= flops_of(layer, 0)
    itemsize = np.dtype(model.config.dtype).itemsize
    return {
        "parameters": parameters,
        "active_parameters": active,
        "flops_per_token": round(flops),
        "training_flops_per_token": round(3 * flops),
        "kv_bytes_per_token": cache * itemsize,
        "state_bytes": state * itemsize,
    }
