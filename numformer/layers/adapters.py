"""Adapters: train few numbers of a large model, keep them apart, and merge them in the end."""

import hashlib

import numpy as np

from numformer.checks import check_whole
from numformer.layers.linear import Linear
from numformer.layers.low_rank_linear import LowRankLinear
from numformer.other_libraries import as_array
from numformer.parameter import Layer, some_of


def add_adapters(model, rank, rng, names=("query", "value"), alpha=8.0, rank_stabilized=False):
    """Give linear maps of a model an adapter each, in place, and freeze everything else.

    Parameters
    ----------
    model : Layer
        Its names and outputs do not change, and the parameters of adapters, ``down`` and ``up``,
        are added.
    rank : int
    rng : numpy.random.Generator or None
    names : sequence of str
        Which maps: the ends of their dotted names, such as "query", or "attention.output" and
        "feedforward.output".
    alpha, rank_stabilized : float, bool
        As in `low_rank_linear`.

    Returns
    -------
    Layer
        The model.

    Raises
    ------
    ValueError
        If there is no map of a name, a weight has two owners, or the rank does not fit; then the
        model is as before.
    TypeError
        If a layer of such a name is no `Linear`, as an embedding, or has an adapter already.

    Notes
    -----
    Hu et al. find queries and values the best choice for a given number of parameters.

    References
    ----------
    Hu et al. (2022), "LoRA: Low-Rank Adaptation of Large Language Models", section 7.1.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8)
    >>> model = add_adapters(Decoder(config, np.random.default_rng(0)), 2, np.random.default_rng(1))
    >>> for name in model.trained_parameters():
    ...     print(name)
    blocks.0.attention.query.down
    blocks.0.attention.query.up
    blocks.0.attention.value.down
    blocks.0.attention.value.up
    """
    owner, layers, chosen = "add_adapters", dict(model.named_layers()), {}
    if not names:
        raise ValueError(f"{owner}: names is empty; give the ends of names, such as 'query'.")
    for name in names:
        fitting = {full: layer for full, layer in layers.items()
                   if full == name or full.endswith(f".{name}")}
        if not fitting:
            raise ValueError(f"{owner}: no layer of this {type(model).__name__} has the name "
                             f"{name!r}; give ends of dotted names, such as 'query'.")
        chosen |= fitting
    _check_maps(owner, model, chosen)
    for full, layer in chosen.items():
        check_whole(owner, f"rank of {full}", rank, most=min(layer.weight.data.shape))
    adapted = {id(layer): LowRankLinear(layer, rank, rng, alpha, rank_stabilized)
               for layer in chosen.values()}
    model.freeze()
    _replace(model, adapted)
    return model


def merged(model):
    """A plain model that computes the same: each adapter is added to the weight of its map.

    Parameters
    ----------
    model : Layer
        With adapters; it stays as it is.

    Returns
    -------
    Layer
        With memory of its own, nothing in it frozen, and the names of the model without adapters.

    Raises
    ------
    ValueError
        If the model has no adapters.

    Examples
    --------
    >>> from numformer.layers import FeedForward
    >>> layer = FeedForward(4, 8, "relu", np.random.default_rng(0))
    >>> merged(add_adapters(layer, 2, np.random.default_rng(1), ["hidden"]))
    FeedForward(hidden=Linear, output=Linear, activation='relu')
    """
    _adapters("merged", model)
    plain = model.replica()
    for parameter in plain.parameters():
        parameter.data = parameter.data.copy()
    plain.unfreeze()
    _replace(plain, {id(layer): layer.merged() for _, layer in plain.named_layers()
                     if isinstance(layer, LowRankLinear)})
    return plain


def adapter_state(model):
    """What a model has learned in its adapters, without the model.

    Returns
    -------
    arrays : dict of str to ndarray
        Copies of ``down`` and ``up``, by name.
    facts : dict
        ``rank``, ``alpha`` and ``rank_stabilized`` of each adapter by the name of its map, in
        ``adapters``; and ``base``, the `base_digest` of the model without them. JSON can hold it.

    Raises
    ------
    ValueError
        If the model has no adapters.

    See Also
    --------
    load_adapters : The way back.
    """
    adapters = _adapters("adapter_state", model)
    arrays = {f"{name}.{part}": getattr(layer, part).data.copy()
              for name, layer in adapters.items() for part in ("down", "up")}
    about = {name: {"rank": layer.down.data.shape[1], "alpha": layer.alpha,
                    "rank_stabilized": layer.rank_stabilized} for name, layer in adapters.items()}
    return arrays, {"adapters": about, "base": base_digest(model)}


def load_adapters(model, arrays, facts):
    """Add the adapters of an `adapter_state` to the model that they were trained on, in place.

    Parameters
    ----------
    model : Layer
        Without adapters.
    arrays, facts : dict
        From `adapter_state`.

    Returns
    -------
    Layer
        The model.

    Raises
    ------
    ValueError, TypeError
        If they were trained on other weights, or do not fit; then the model is as before.

    Examples
    --------
    >>> from numformer.layers import FeedForward
    >>> base = [FeedForward(4, 8, "relu", np.random.default_rng(0)) for _ in range(3)]
    >>> adapted = add_adapters(base[0], 2, np.random.default_rng(1), ["hidden"])
    >>> adapted.hidden.up.data[...] = 0.1
    >>> again = load_adapters(base[1], *adapter_state(adapted))
    >>> x = np.ones((1, 4), np.float32)
    >>> np.array_equal(again(x), adapted(x)), np.array_equal(base[2](x), adapted(x))
    (True, False)
    """
    owner, layers = "load_adapters", dict(model.named_layers())
    if base_digest(model) != facts["base"]:
        raise ValueError(f"{owner}: these adapters were trained on other weights than those of "
                         f"this {type(model).__name__}; load them into the model of that time.")
    known = {f"{name}.{part}" for name in facts["adapters"] for part in ("down", "up")}
    missing = [name for name in facts["adapters"] if name not in layers]
    if missing or known != arrays.keys():
        raise ValueError(f"{owner}: the adapters do not fit; no layer: {some_of(missing)}; "
                         f"missing: {some_of(sorted(known - arrays.keys()))}; "
                         f"unexpected: {some_of(sorted(arrays.keys() - known))}.")
    chosen = {name: layers[name] for name in facts["adapters"]}
    _check_maps(owner, model, chosen)
    adapted = {}
    for name, layer in chosen.items():
        made = adapted[id(layer)] = LowRankLinear(layer, rng=None, **facts["adapters"][name])
        for part in ("down", "up"):
            parameter, x = getattr(made, part), as_array(arrays[f"{name}.{part}"])
            if x.shape != parameter.data.shape or x.dtype.kind != "f":
                raise ValueError(f"{owner}: {name}.{part} must be floats of shape "
                                 f"{parameter.data.shape}, but is {x.dtype} of shape {x.shape}.")
            parameter.data = x.astype(parameter.data.dtype)           # a copy
    model.freeze()
    _replace(model, adapted)
    return model


def base_digest(model):
    """SHA-256 of a model's parameters, without those of adapters: names, dtypes, shapes, bytes."""
    digest = hashlib.sha256()
    apart = {id(part) for _, layer in model.named_layers() if isinstance(layer, LowRankLinear)
             for part in (layer.down, layer.up)}
    for name, parameter in model.named_parameters():
        if id(parameter) not in apart:
            x = parameter.data
            digest.update(f"{name} {x.dtype} {x.shape} ".encode())
            digest.update(np.ascontiguousarray(x).data)
    return digest.hexdigest()


def _adapters(owner, model):
    found = {name: layer for name, layer in model.named_layers()
             if isinstance(layer, LowRankLinear)}
    if not found:
        raise ValueError(f"{owner}: this {type(model).__name__} has no adapters; it is plain, or "
                         "merged already.")
    return found


def _check_maps(owner, model, chosen):
    """Check that layers, by name, are plain maps inside a model, with weights of their own."""
    for name, layer in chosen.items():
        if type(layer) is not Linear:
            raise TypeError(f"{owner}: {name} is a {type(layer).__name__}, but must be a Linear"
                            + ("; it has an adapter already, so merge it first."
                               if isinstance(layer, LowRankLinear) else "."))
        if layer is model:
            raise TypeError(f"{owner}: the model is itself a Linear; make a LowRankLinear of it.")
        shared = [other for other, part in model.named_layers() if part is not layer
                  and any(each is layer.weight for each in _own_parameters(part))]
        if shared:
            raise ValueError(f"{owner}: {some_of(shared)} has the weight of {name}, too, and would "
                             "not see its adapter; leave it out.")


def _own_parameters(part):
    """The values of a layer's attributes, and those of lists and dicts among them."""
    for value in vars(part).values():
        yield from (value.values() if isinstance(value, dict) else
                    value if isinstance(value, (list, tuple)) else (value,))


def _replace(part, others):
    """Replace layers, by their id, wherever they are in the tree."""
    children = vars(part) if isinstance(part, Layer) else part
    for key, child in list(children.items() if isinstance(children, dict)
                           else enumerate(children)):
        if id(child) in others:
            children[key] = others[id(child)]
        elif isinstance(child, (Layer, dict, list)):
            _replace(child, others)
        elif type(child) is tuple:
            children[key] = list(child)
            _replace(children[key], others)
            children[key] = tuple(children[key])
