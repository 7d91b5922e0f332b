"""Costs of a decoder by part: predicted by formulas, and measured on a run."""

import numpy as np

from numformer.checks import check_whole
from numformer.functional.activations.table import GATED
from numformer.functional.attention.masks import EVERYWHERE
from numformer.layers import MultiHeadAttention
from numformer.analysis.counting import count
from numformer.layers.positions.schemes import IN_ATTENTION
from numformer.models.decoder.config import DecoderConfig
from numformer.models.decoder.model import Decoder
from numformer.analysis.capture import capture
from numformer.parameter import Layer

PARTS = {"attention": "attention", "feedforward": "feed-forward", "norm1": "norms",
         "norm2": "norms", "norm": "norms", "head": "head", "embedding": "embedding",
         "positions": "embedding"}
LARGEST = 2 * 10 ** 8                                 # parameters of a model that is built for this


def model_costs(config, length=None):
    r"""Parameters, FLOPs, activations and KV cache of a decoder by part, predicted and measured.

    Per block, without biases, for width C, H heads of width D, G key-value heads, hidden width F
    and sequence length T:

    .. math::

        \text{parameters: } 2 C^2 + 2 C G D,\; 2 C F \text{ or, gated, } 3 C F, \qquad
        \text{FLOPs: twice these}, \; + 4 C \tfrac{T + 1}{2}

        \text{activations: } 3 C + 2 G D + 2 H, \;
        C + 2 F \text{ or, gated, } C + 4 F, \; 2 (C + 3), \qquad
        \text{cache: } 2 G D

    Activations are saved from the forward for the backward. Attention saves its input, queries,
    keys, values, output, and two numbers per query instead of T weights; with query-key
    normalization also the unnormalized queries and keys, and one number per head. A feed-forward
    saves its input, the output of the nonlinearity, and what its derivative needs. A norm saves the
    vector and three numbers. Measured are the arrays in all `saved`, each once, without parameters
    and constants; multiplications, from the shapes; and the cache after T steps.

    Parameters
    ----------
    config : DecoderConfig
        Without experts, dropout, and options that few models have: `d_head`, `qkv_bias`,
        `lm_head_bias`, `d_rotary` and `sliding_window` of `DecoderConfig`.
    length : int, optional
        T; the context length by default.

    Returns
    -------
    list of dict
        ``quantity`` ("parameters"; "flops", "activations" and "kv_cache" per token, the last two in
        bytes), ``part``, ``formula``, ``predicted`` and ``measured``.

    Raises
    ------
    ValueError, TypeError
        If the config is of another model, has options that the formulas do not cover, or gives a
        model that is too large to build.

    References
    ----------
    Kaplan et al. (2020), "Scaling Laws for Neural Language Models", table 1, for parameters and
    FLOPs; Korthikanti et al. (2022), "Reducing Activation Recomputation in Large Transformer
    Models", section 4, for activations, there of another implementation.

    Examples
    --------
    >>> config = DecoderConfig(vocab_size=65, context_length=8, n_layers=2, n_heads=2, d_model=16,
    ...                        bias=False, positions="rotary")
    >>> rows = model_costs(config)
    >>> for row in rows[:3]:
    ...     print(row["part"], row["formula"], row["predicted"], sep=": ")
    embedding: V C: 1040
    attention: L (2 C² + 2 C G D): 2048
    feed-forward: L 2 C F: 4096
    >>> all(row["predicted"] == row["measured"] for row in rows)
    True
    """
    _check(config)
    c = config
    T = c.context_length if length is None else length
    check_whole("model_costs", "length", T)
    if (parameters := count(c)["parameters"]) > LARGEST:
        raise ValueError(f"model_costs: a model of {parameters:,} parameters is too large to build "
                         f"and measure; give one of at most {LARGEST:,}, or use count.")
    model = Decoder(c, np.random.default_rng(0))
    found = {"parameters": _parameters(model), **_run(model, T),
             "kv_cache": {"attention": _cache(model, T)}}
    return [{"quantity": quantity, "part": part, "formula": formula, "predicted": predicted,
             "measured": found[quantity].get(part, 0)}
            for quantity, part, formula, predicted in _formulas(c, T) if predicted]


def _formulas(config, T):
    """(quantity, part, formula, value) of all rows."""
    c, size = config, np.dtype(config.dtype).itemsize
    L, C, V, F, H = c.n_layers, c.d_model, c.vocab_size, c.hidden_width, c.n_heads
    D = C // H
    G, norms, matrices = c.n_kv_heads or H, 2 * L + c.norm_first, 3 if c.feedforward in GATED else 2
    biases = {"attention": L * (2 * C + 2 * G * D),
              "feed-forward": L * ((matrices - 1) * F + C)} if c.bias else {}
    has_bias = c.bias and c.norm == "layer_norm"
    norm_formula = f"{norms} {'2 ' if has_bias else ''}C"
    learned = c.positions == "learned"
    normed = c.query_key_norm
    project, feed = 2 * C * C + 2 * C * G * D, matrices * C * F
    attention_formula = "L (2 C² + 2 C G D" + " + 2 C + 2 G D" * c.bias + " + 2 D" * normed + ")"
    feed_formula = (f"L ({matrices} C F + {'2 ' * (matrices - 2)}F + C)" if c.bias
                    else f"L {matrices} C F")
    return [
        ("parameters", "embedding", "V C" + " + T C" * learned,
         V * C + c.context_length * C * learned),
        ("parameters", "attention", attention_formula,
         L * (project + 2 * D * normed) + biases.get("attention", 0)),
        ("parameters", "feed-forward", feed_formula,
         L * feed + biases.get("feed-forward", 0)),
        ("parameters", "norms", norm_formula, norms * C * (1 + has_bias)),
        ("parameters", "head", "V C", 0 if c.tied else V * C),
        ("flops", "attention", "L (4 C² + 4 C G D + 2 C (T + 1))",
         L * (2 * project + 2 * C * (T + 1))),
        ("flops", "feed-forward", f"L {2 * matrices} C F", L * 2 * feed),
        ("flops", "head", "2 C V", 2 * C * V),
        ("activations", "attention",
         f"{size} L (3 C + 2 G D + 2 H" + " + C + G D + H + G" * normed + ")",
         size * L * (3 * C + 2 * G * D + 2 * H + (C + G * D + H + G) * normed)),
        ("activations", "feed-forward", f"{size} L (C + {matrices} F)",
         size * L * (C + matrices * F)),
        ("activations", "norms", f"{size} · {norms} (C + 3)", size * norms * (C + 3)),
        ("activations", "head", f"{size} C", size * C),
        ("kv_cache", "attention", f"{size} · 2 L G D", size * L * 2 * G * D),
    ]


def _parameters(model):
    """The number of parameters of each part."""
    found = {}
    for name, parameter in model.named_parameters():
        part = _part(name)
        found[part] = found.get(part, 0) + parameter.data.size
    return found


def _run(model, T):
    """FLOPs and bytes per token of each part, in a forward of T tokens."""
    with capture(model, Layer) as seen:
        _, saved = model.forward(np.arange(T)[None] % model.config.vocab_size)
    flops, multiplied = {}, set()
    for name, layer, _, options, _, _ in seen:        # inner layers end first; an outer one may
        parts = {part for _, part in layer.named_layers()} - multiplied     # multiply for others
        multiplied |= parts
        operations = 2 * sum(part.describe().weights for part in parts)
        if layer.describe().keys:
            first, last = options.get("pattern", EVERYWHERE).intervals(T, T)
            operations += 2 * layer.describe().keys * int((last - first).sum()) / T
        if operations:
            flops[_part(name)] = flops.get(_part(name), 0) + operations
    parameters, counted, kept = [parameter.data for parameter in model.parameters()], set(), {}
    slopes = [layer.positions.slopes for _, layer in model.named_layers()
              if isinstance(layer, MultiHeadAttention) and layer.positions.slopes is not None]
    for name, *_, its_saved in seen:              # inner layers end first: shared arrays are theirs
        for array in _arrays(its_saved, T):
            memory = array.__array_interface__["data"][0], array.nbytes
            constant = any(np.shares_memory(array, data) for data in parameters) or any(
                np.array_equal(array, its.astype(array.dtype)) for its in slopes)
            if memory not in counted and not constant:
                counted.add(memory)
                kept[_part(name)] = kept.get(_part(name), 0) + array.nbytes / T
    return {"flops": flops, "activations": kept}


def _cache(model, T):
    """Bytes of keys and values per token after T steps."""
    _, cache = model.step(np.zeros((1, T), int))
    return sum(past.k.nbytes + past.v.nbytes for past in cache.blocks) / T


def _arrays(part, T):
    """All arrays of at least T numbers in nested tuples, except read-only constants."""
    if isinstance(part, np.ndarray):
        if part.dtype.kind == "f" and part.size >= T and part.flags.writeable:
            yield part
    elif isinstance(part, (tuple, list)):
        for each in part:
            yield from _arrays(each, T)


def _part(name):
    """The part that a layer or parameter belongs to; None for a model or a block."""
    return next((PARTS[word] for word in name.split(".") if word in PARTS), None)


def _check(config):
    if type(config) is not DecoderConfig:
        raise TypeError("model_costs: config must be a DecoderConfig, but is "
                        f"{type(config).__name__}.")
    for name, plain in (("n_experts", 1), ("dropout", 0.0), ("logit_softcap", None),
                        ("sandwich_norm", False), ("parallel_residual", False),
                        ("embedding_norm", False), ("d_head", None), ("qkv_bias", None),
                        ("lm_head_bias", False), ("d_rotary", None), ("sliding_window", 0)):
        if getattr(config, name) != plain:
            raise ValueError(f"model_costs: {name}={getattr(config, name)} is not covered by the "
                             f"formulas; use {name}={plain}.")
    kind = IN_ATTENTION.get(config.positions)
    trained = kind is not None and kind.of_config(config, None).parameters()
    for name, unknown in (
            ("positions", trained or config.positions.startswith("concatenated")),
            ("feedforward", config.feedforward in ("swish", "gated_swish"))):
        if unknown:
            raise ValueError(f"model_costs: {name}={getattr(config, name)!r} is not covered by the "
                             "formulas; use another.")
