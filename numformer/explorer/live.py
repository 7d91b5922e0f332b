"""A model as a page computes it: what the script reads of its config, weights and tokenizer."""

import base64
import re
from functools import lru_cache
from importlib.resources import files

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.data import BytePairTokenizer, CharacterTokenizer
from numformer.functional import alibi_slopes, relative_position_buckets
from numformer.functional.activations.table import GATED
from numformer.layers.blocks.local import SLIDING
from numformer.models import Decoder
from numformer.plots.text.letters import signs
from numformer.plots.tokens import LONGEST_TICK

MOST_PARAMETERS = 4_000_000                           # a page of about 11 MB in 16 bits
POSITIONS = ("learned", "sinusoidal", "rotary", "alibi", "t5", "none")
BITS = {"float16": 16, "float32": 32}


@lru_cache(maxsize=None)
def script_activations():
    """The names of the activations that the script computes, from its own table."""
    script = files(__package__).joinpath("engine/activations.js").read_text(encoding="utf-8")
    table = script.partition("const ACTIVATIONS = {")[2].partition("\n};")[0]
    return re.findall(r"^  (\w+): ", table, flags=re.MULTILINE)


def why_not_live(model, tokenizer):
    """Why a page cannot compute this model, a sentence; None if it can.

    Parameters
    ----------
    model : Layer
    tokenizer : Tokenizer or None

    Returns
    -------
    str or None

    Examples
    --------
    >>> from numformer.models import DecoderConfig
    >>> config = DecoderConfig(vocab_size=2, context_length=8, n_layers=1, n_heads=1, d_model=4)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> why_not_live(model, CharacterTokenizer("ab")), why_not_live(model, None)
    (None, 'no tokenizer was given, which the page needs to read text')
    """
    if type(model) is not Decoder:
        return f"the script computes decoders, and this model is a {type(model).__name__}"
    if tokenizer is None:
        return "no tokenizer was given, which the page needs to read text"
    if type(tokenizer) not in (CharacterTokenizer, BytePairTokenizer):
        return ("the script has tokenizers of characters and of byte pairs, and this run has a "
                f"{type(tokenizer).__name__}")
    if isinstance(tokenizer, BytePairTokenizer) and (
            tokenizer.split != "ascii" or tokenizer.order != "bytes"):
        return f"the script does not split text as {tokenizer.split!r} tokenizers do"
    c = model.config
    for unsupported, what in (
            (c.positions not in POSITIONS, f"positions={c.positions!r}"),
            (c.attention_weights != "learned", f"attention_weights={c.attention_weights!r}"),
            (GATED.get(c.feedforward, c.feedforward) not in script_activations(),
             f"feedforward={c.feedforward!r}"),
            (c.score_softcap is not None, f"score_softcap={c.score_softcap}")):
        if unsupported:
            return f"the script does not compute {what}"
    if len(tokenizer) != c.vocab_size:
        return (f"the model has vocab_size={c.vocab_size}, but its tokenizer {len(tokenizer)} "
                "tokens")
    n = sum(parameter.data.size for _, parameter in model.named_parameters())
    if n > MOST_PARAMETERS:
        return (f"its {n:,} parameters would make a page that is too large; the limit is "
                f"{MOST_PARAMETERS:,}")
    if _layers(model) != _layers(type(model)(c, None)):
        return "its layers were changed after it was built from its config"
    return None


def live_model(model, tokenizer, most, weights="float16"):
    """What the script needs to compute a model, ready for JSON.

    Parameters
    ----------
    model : Decoder
        For which `why_not_live` is None.
    tokenizer : Tokenizer
    most : int
        Tokens that the page reads at most.
    weights : "float16" or "float32"
        float16 halves the page; the weights are rounded, and the page says so.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If `weights` is another type, or a weight is too large for float16.
    """
    check_choice("live_model", "weights", weights, list(BITS))
    check_whole("live_model", "most", most)
    state = model.state_dict()
    with np.errstate(over="ignore"):
        stored = {name: array.astype(f"<f{BITS[weights] // 8}") for name, array in state.items()}
    for name, array in stored.items():
        if not np.isfinite(array).all():
            raise ValueError(f"explore: {name} has numbers that float16 cannot hold; use "
                             "weights='float32'.")
    packed = b"".join(np.ascontiguousarray(array).tobytes() for array in stored.values())
    return {"bits": BITS[weights], "config": _config(model, most),
            "shapes": [[name, list(array.shape)] for name, array in stored.items()],
            "weights": base64.b64encode(packed).decode(), "tokenizer": tokenizer.to_json(),
            "labels": [signs(tokenizer.decode([token]), LONGEST_TICK)
                       for token in range(len(tokenizer))]}


def _config(model, most):
    """The options of a decoder, with their defaults resolved; lists have an item a layer."""
    c, D = model.config, model.config.head_width
    capacity = min(most, c.context_length)
    distances = np.arange(capacity)
    expert = c.expert_feedforward or c.feedforward
    return {
        "layers": c.n_layers, "heads": c.n_heads, "groups": c.n_kv_heads or c.n_heads,
        "width": c.d_model, "headWidth": D, "vocabulary": c.vocab_size, "capacity": capacity,
        "norm": c.norm, "unitOffset": c.unit_offset, "epsilon": c.epsilon,
        "order": "post" if not c.norm_first else "sandwich" if c.sandwich_norm else "pre",
        "parallel": c.parallel_residual, "positions": c.positions,
        "embeddingScale": model.embedding.scale, "logitCap": c.logit_softcap,
        "scale": 1.0 if not c.scaled_scores else c.score_scale or D ** -0.5,
        "activation": GATED.get(c.feedforward, c.feedforward),
        "expertActivation": GATED.get(expert, expert), "expertsPerToken": c.experts_per_token,
        "gatesOver": c.gates_over,
        "windows": [c.sliding_window if kind == SLIDING else 0 for kind in c.layer_kinds],
        "slopes": list(alibi_slopes(c.n_heads)) if c.positions == "alibi" else None,
        "buckets": (relative_position_buckets(-distances, c.n_buckets, c.max_distance, False)
                    .tolist() if c.positions == "t5" else None),
        "rotary": ([_rotary(block.attention.positions) for block in model.blocks]
                   if c.positions == "rotary" else None)}


def _rotary(positions):
    """Frequencies, factor and layout of the rotary positions of a layer."""
    frequencies, factor = positions.angles
    return {"frequencies": list(map(float, frequencies)), "factor": float(factor),
            "layout": positions.layout}


def _layers(model):
    """All layers below the model itself, with their settings."""
    return [(name, repr(layer)) for name, layer in model.named_layers() if name]
