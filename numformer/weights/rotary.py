"""What the keys of a config.json mean that are about rotary positions and about local layers."""

import math
from reprlib import repr as brief

from numformer.weights.keys import NOTHING, Key, Option, OtherName

# Published name -> ours, of the numbers that each kind of scaling has to have, and may have
_FACTOR = {"factor": "factor"}
_LENGTH = {"original_max_position_embeddings": "original_length"}
_NEEDED = {"linear": _FACTOR, "yarn": _FACTOR,
           "llama3": {**_FACTOR, "low_freq_factor": "low_frequency_factor",
                      "high_freq_factor": "high_frequency_factor"}}
_OPTIONAL = {"linear": {}, "llama3": _LENGTH, "yarn": {
    **_LENGTH, **{name: name for name in ("beta_fast", "beta_slow", "truncate",
                                          "attention_factor")}}}


class Rotary(Key):
    """The scaling of rotary angles: none, "linear", "llama3" or "yarn", see `scaled_frequencies`.

    transformers 5 writes ``rope_parameters``, with the base of the angles inside; earlier ones have
    ``rope_scaling``, which is what we write, and ``rope_theta`` next to it.

    Parameters
    ----------
    written : bool
        Whether the key is written.
    share : bool
        Whether the value may say which share of a head is rotated.
    """

    def __init__(self, written=False, share=False):
        self.written, self.share = written, share

    def read(self, value, options):
        if value is None:
            return
        if not isinstance(value, dict):
            raise ValueError("must be null or an object")
        numbers = {name: number for name, number in value.items() if number is not None}
        kinds = {numbers.pop(name) for name in ("rope_type", "type")
                 if isinstance(numbers.get(name), str)} or {"default"}
        kind = kinds.pop()
        if kinds or "rope_type" in numbers or "type" in numbers or kind not in ("default",
                                                                                *_NEEDED):
            found = value.get("rope_type", value.get("type"))
            raise ValueError(f"has rope_type {brief(found)}, but must have 'default' or "
                             f"{' or '.join(map(repr, _NEEDED))}")
        if "rope_theta" in numbers:
            options["rotary_base"] = _number("rope_theta", numbers.pop("rope_theta"))
        if self.share and "partial_rotary_factor" in numbers:
            Share().read(numbers.pop("partial_rotary_factor"), options)
        needed = _NEEDED.get(kind, {})
        names = {**needed, **_OPTIONAL.get(kind, {})}
        unknown, missing = sorted(numbers.keys() - names), sorted(needed.keys() - numbers)
        if unknown:
            raise ValueError(f"has {brief(unknown[0])}, which is not known")
        if missing:
            raise ValueError(f"has no {missing[0]!r}")
        if kind == "default":
            return
        scaling = {names[name]: number if name == "truncate" else _number(name, number)
                   for name, number in numbers.items()}
        if kind != "linear":                          # as theirs: of pretraining, unless given
            scaling.setdefault("original_length", options["context_length"])
        options["rotary_scaling"] = {"kind": kind, **scaling}

    def check(self, value, config):
        """The two keys that may say it say the same."""
        options = {name: getattr(config, name) for name in ("context_length", "d_model", "n_heads",
                                                            "d_head")}
        self.read(value, options)
        if value is not None and options.get("rotary_scaling") != config.rotary_scaling:
            raise ValueError("says another scaling of rotary angles than another key")

    def write(self, config):
        if not self.written or config.rotary_scaling is None:
            return NOTHING
        kind = config.rotary_scaling["kind"]
        # What ours has by default, theirs has to have
        scaling = {"low_frequency_factor": 1.0, "high_frequency_factor": 4.0,
                   **config.rotary_scaling}
        names = {**_NEEDED[kind], **_OPTIONAL[kind]}
        return {"rope_type": kind, **{theirs: scaling[ours] for theirs, ours in names.items()
                                      if ours in scaling}}


class RotaryByLayer(Rotary):
    """`Rotary` for two kinds of layers: ``{"full_attention": ..., "sliding_attention": ...}``."""

    def read(self, value, options):
        if not isinstance(value, dict) or not value.keys() & {"full_attention",
                                                              "sliding_attention"}:
            super().read(value, options)
            return
        unknown = sorted(value.keys() - {"full_attention", "sliding_attention"})
        if unknown:
            raise ValueError(f"has {brief(unknown[0])}, which is not known")
        super().read(value.get("full_attention"), options)
        local = {"context_length": options["context_length"]}
        super().read(value.get("sliding_attention"), local)
        if "rotary_scaling" in local:
            raise ValueError("must have 'default' for layers of 'sliding_attention'")
        if "rotary_base" in local:
            options["local_rotary_base"] = local["rotary_base"]


class LocalBase(OtherName):
    """The base of rotary angles in local layers; without the key, as the family's options say."""

    def read(self, value, options):
        options[self.name] = _number("", value)

    def write(self, config):
        value = getattr(config, self.name)
        return NOTHING if value is None else value


class Share(Key):
    """Which share of a head is rotated; ours is the number of coordinates."""

    def __init__(self, default=NOTHING):
        self.default = default

    def read(self, value, options):
        width = _width(options)
        rotated = int(width * _number("", value))
        if not 2 <= rotated <= width or rotated % 2:
            raise ValueError(f"must be a share of the {width} coordinates of a head that is even, "
                             "and 2 or more of them")
        options["d_rotary"] = None if rotated == width else rotated

    def write(self, config):
        rotated, width = config.d_rotary or config.head_width, config.head_width
        share = rotated / width
        return share if int(width * share) == rotated else math.nextafter(share, 1)


class HeadWidth(Key):
    """D, which is C / H if it is null."""

    def __init__(self, default=None):
        self.default = default

    def read(self, value, options):
        if value is None:
            return
        if type(value) is not int or value < 1:
            raise ValueError("must be null or a whole number, 1 or more")
        is_default = value == _width(options) and options["d_model"] % options["n_heads"] == 0
        options["d_head"] = None if is_default else value

    def write(self, config):
        return config.head_width


class Window(Key):
    """Tokens that a local layer attends to; null: all of them, which is 0 for us.

    Parameters
    ----------
    default : int, optional
    null : bool
        Whether it may be null; otherwise, `LayerTypes` say that no layer is local.
    """

    def __init__(self, default=None, null=True):
        self.default, self.null = default, null

    def read(self, value, options):
        if (value is None and not self.null) or (
                value is not None and (type(value) is not int or value < 1)):
            raise ValueError(f"must be {'null or ' * self.null}a whole number, 1 or more")
        options["sliding_window"] = value or 0

    def write(self, config):
        return config.sliding_window or (None if self.null else NOTHING)


class LayerTypes(Key):
    """The kinds of layers, one by one: local but for the last of every so many."""

    KINDS = {True: "sliding_attention", False: "full_attention"}
    default = None

    def read(self, value, options):
        if value is None:
            return
        if not isinstance(value, list) or any(kind not in self.KINDS.values() for kind in value):
            raise ValueError("must be null or a list of 'sliding_attention' and 'full_attention'")
        full = value.index("full_attention") + 1 if "full_attention" in value else 0
        options["global_every"] = full
        if "sliding_attention" not in value:
            options["sliding_window"] = options["global_every"] = 0

    def check(self, value, config):
        if value is not None and value != self.write(config):
            raise ValueError("must have sliding_attention for all layers but the last of every so "
                             "many, and a sliding_window")

    def write(self, config):
        return [self.KINDS[local] for local in config.local_layers]


class PreAttention(Key):
    """The number whose root divides scores: not D in some models."""

    def __init__(self, default):
        self.default = default

    def read(self, value, options):
        if _number("", value) <= 0:
            raise ValueError("must be above 0")
        options["score_scale"] = value ** -0.5

    def write(self, config):
        scale = config.score_scale
        return config.head_width if scale is None else max(1, round(scale ** -2))


def _number(name, value):
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{'has ' + name if name else 'must be a number, not'} {brief(value)}"
                         f"{', which is no number' if name else ''}")
    return value


def _width(options):
    try:
        return options.get("d_head") or options["d_model"] // options["n_heads"]
    except (TypeError, ZeroDivisionError):
        raise ValueError("needs a width and a number of heads") from None


# The value of `rope_theta` may be inside of the others
ROTARY = {"rope_theta": Option("rotary_base", 10000.0), "rope_parameters": Rotary(),
          "rope_scaling": Rotary(written=True)}
