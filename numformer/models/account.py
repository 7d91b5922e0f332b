"""What a decoder costs, part by part: what formulas say, and what is found when it runs."""

import numpy as np

from numformer.checks import check_whole
from numformer.functional.pattern import EVERYWHERE
from numformer.layers import Linear, MultiHeadAttention, Unembedding
from numformer.models.blocks import GATED
from numformer.models.counting import count
from numformer.models.decoder import Decoder
from numformer.models.decoder_config import DecoderConfig
from numformer.models.watch import watch
from numformer.parameter import Layer

PARTS = {"attention": "attention", "feedforward": "feed-forward", "norm1": "norms", "norm2": "norms", "norm": "norms", "head": "head",
         "embedding": "embedding", "positions": "embedding"}
LARGEST = 2 * 10 ** 8                                                 # parameters of a model that is built to be measured


def account(config, length=None):
    r"""Parameters, operations, activations and KV cache of a decoder, by part: predicted by formulas, and measured on a run.

    Per block, with C the width, D that of a head, G key-value heads, F the hidden width, T the length, and without biases:

    .. math::

        \text{parameters: } 2 C^2 + 2 C G D,\; 2 C F \text{ or, gated, } 3 C F, \qquad
        \text{FLOPs: twice these}, \; + 4 C \tfrac{T + 1}{2}

        \text{activations: } 3 C + 2 G D + 2 H, \; C + 2 F \text{ or, gated, } C + 4 F, \; 2 (C + 3), \qquad
        \text{cache: } 2 G D

    An activation is kept from the forward to the backward: of attention its input, queries, keys, values, output and two numbers a
    query instead of T weights, and where queries and keys are normalised what they were before, with three numbers for each head; of a
    feed-forward its input, what comes out of the nonlinearity, and what its derivative is made of;
    of a norm the vector and three numbers. Measured are the arrays of all `saved`, each once, without parameters and constants; the
    multiplications by the shapes that meet; the cache after T steps.

    Parameters
    ----------
    config : DecoderConfig
        Without experts, n-grams or dropout.
    length : int, optional
        T; the context length unless given.

    Returns
    -------
    list of dict
        ``quantity`` ("parameters"; "flops", "activations" and "kv_cache" a token, the last two in bytes), ``part``, ``formula``,
        ``predicted`` and ``measured``.

    Raises
    ------
    ValueError, TypeError
        If the config is of another model or has what the formulas leave out; if the model is too large to be built for this.

    References
    ----------
    Kaplan et al. (2020), "Scaling Laws for Neural Language Models", table 1, for parameters and FLOPs; Korthikanti et al. (2022),
    "Reducing Activation Recomputation in Large Transformer Models", section 4, for activations, there of another implementation.

    Examples
    --------
    >>> config = DecoderConfig(vocab_size=65, context_length=8, n_layers=2, n_heads=2, d_model=16, bias=False, positions="rotary")
    >>> rows = account(config)
    >>> [(row["part"], row["formula"], row["predicted"]) for row in rows[:3]]
    [('embedding', 'V C', 1040), ('attention', 'L (2 C² + 2 C G D)', 2048), ('feed-forward', 'L 2 C F', 4096)]
    >>> all(row["predicted"] == row["measured"] for row in rows)
    True
    """
    _check(config)
    c = config
    T = c.context_length if length is None else length
    check_whole("account", "length", T)
    if (parameters := count(c)["parameters"]) > LARGEST:
        raise ValueError(f"account: a model of {parameters:,} parameters is too large to be built and measured; give one of at most "
                         f"{LARGEST:,}, or use count.")
    model = Decoder(c, np.random.default_rng(0))
    found = {"parameters": _parameters(model), **_run(model, T), "kv_cache": {"attention": _cache(model, T)}}
    return [{"quantity": quantity, "part": part, "formula": formula, "predicted": predicted, "measured": found[quantity].get(part, 0)}
            for quantity, part, formula, predicted in _formulas(c, T) if predicted]


def _formulas(config, T):
    """(quantity, part, formula, its value) of everything."""
    c, size = config, np.dtype(config.dtype).itemsize
    L, C, V, F, H = c.n_layers, c.d_model, c.vocab_size, c.hidden_width, c.n_heads
    D = C // H
    G, norms, matrices = c.n_kv_heads or H, 2 * L + c.norm_first, 3 if c.feedforward in GATED else 2
    biases = {"attention": L * (2 * C + 2 * G * D), "feed-forward": L * ((matrices - 1) * F + C)} if c.bias else {}
    shift = c.bias and c.norm == "layer_norm"
    spelled = f"{norms} {'2 ' if shift else ''}C"
    learned = c.positions == "learned"
    normed = c.query_key_norm
    project, feed = 2 * C * C + 2 * C * G * D, matrices * C * F
    kept = 2 if matrices == 2 else 4                                  # F numbers of a feed-forward: see the docstring
    return [
        ("parameters", "embedding", "V C" + " + T C" * learned, V * C + c.context_length * C * learned),
        ("parameters", "attention", "L (2 C² + 2 C G D" + " + 2 C + 2 G D" * c.bias + " + 2 D" * normed + ")",
         L * (project + 2 * D * normed) + biases.get("attention", 0)),
        ("parameters", "feed-forward", f"L {matrices} C F" if not c.bias else f"L ({matrices} C F + {'2 ' * (matrices - 2)}F + C)",
         L * feed + biases.get("feed-forward", 0)),
        ("parameters", "norms", spelled, norms * C * (1 + shift)),
        ("parameters", "head", "V C", 0 if c.tied else V * C),
        ("flops", "attention", "L (4 C² + 4 C G D + 2 C (T + 1))", L * (2 * project + 2 * C * (T + 1))),
        ("flops", "feed-forward", f"L {2 * matrices} C F", L * 2 * feed),
        ("flops", "head", "2 C V", 2 * C * V),
        ("activations", "attention", "L (3 C + 2 G D + 2 H" + " + C + G D + 3 H + 3 G" * normed + ")",
         size * L * (3 * C + 2 * G * D + 2 * H + (C + G * D + 3 * H + 3 * G) * normed)),
        ("activations", "feed-forward", f"L (C + {kept} F)", size * L * (C + kept * F)),
        ("activations", "norms", f"{norms} (C + 3)", size * norms * (C + 3)),
        ("activations", "head", "C", size * C),
        ("kv_cache", "attention", "L 2 G D", size * L * 2 * G * D),
    ]


def _parameters(model):
    """Numbers of each part."""
    found = {}
    for name, parameter in model.named_parameters():
        part = _part(name)
        found[part] = found.get(part, 0) + parameter.data.size
    return found


def _run(model, T):
    """FLOPs and bytes of each part, a token, of one forward of T tokens."""
    with watch(model, Layer) as seen:
        _, saved = model.forward(np.arange(T)[None] % model.config.vocab_size)
    flops = {}
    for name, layer, inputs, options, output, _ in seen:
        if isinstance(layer, (Linear, Unembedding)):
            operations = 2 * inputs[0].size * output.shape[-1]
        elif isinstance(layer, MultiHeadAttention):
            first, last = options.get("pattern", EVERYWHERE).intervals(T, T)
            operations = 4 * layer.n_heads * layer.d_head * int((last - first).sum())
        else:
            continue
        flops[_part(name)] = flops.get(_part(name), 0) + operations / T
    parameters, counted, kept = [parameter.data for parameter in model.parameters()], set(), {}
    slopes = [layer.slopes for _, layer in model.named_layers() if isinstance(layer, MultiHeadAttention) and layer.slopes is not None]
    for name, *_, its_saved in seen:                                  # inner layers end first: what two share is the inner one's
        for array in _arrays(its_saved, T):
            place = array.__array_interface__["data"][0], array.nbytes
            constant = any(np.shares_memory(array, data) for data in parameters) or any(
                np.array_equal(array, its.astype(array.dtype)) for its in slopes)
            if place not in counted and not constant:
                counted.add(place)
                kept[_part(name)] = kept.get(_part(name), 0) + array.nbytes / T
    return {"flops": flops, "activations": kept}


def _cache(model, T):
    """Bytes of keys and values, a token, after T steps."""
    _, cache = model.step(np.zeros((1, T), int))
    return sum(past.k.nbytes + past.v.nbytes for past in cache.blocks) / T


def _arrays(part, T):
    """All arrays of T numbers or more in a nest of tuples, but constants, which cannot be written to."""
    if isinstance(part, np.ndarray):
        if part.dtype.kind == "f" and part.size >= T and part.flags.writeable:
            yield part
    elif isinstance(part, (tuple, list)):
        for each in part:
            yield from _arrays(each, T)


def _part(name):
    """The part of an account that a layer or parameter belongs to; None of the whole model and of a whole block."""
    return next((PARTS[word] for word in name.split(".") if word in PARTS), None)


def _check(config):
    if not isinstance(config, DecoderConfig):
        raise TypeError(f"account: config must be a DecoderConfig, but is {type(config).__name__}.")
    for name, plain in (("n_experts", 1), ("ngrams", 1), ("dropout", 0.0)):
        if getattr(config, name) != plain:
            raise ValueError(f"account: {name}={getattr(config, name)} is not in the formulas; use {name}={plain}.")
