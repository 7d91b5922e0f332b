"""What the keys of a config.json mean that are about rotary positions and the scale of scores."""

import math
from reprlib import repr as brief

from numformer.weights.keys import NOTHING, Key, Old, Option

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
    replaces : tuple of str
        Keys that are not read where this one has a value.
    """

    def __init__(self, written=False, share=False, replaces=()):
        self.written, self.share, self.replaces = written, share, replaces

    def read(self, value, options):
        if value is None or value == {}:
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
            options["rotary_base"] = finite_number("rope_theta", numbers.pop("rope_theta"))
        if self.share and "partial_rotary_factor" in numbers:
            Share().read(numbers.pop("partial_rotary_factor"), options)
        if numbers.get("partial_rotary_factor") == 1:
            del numbers["partial_rotary_factor"]
        needed = _NEEDED.get(kind, {})
        names = {**needed, **_OPTIONAL.get(kind, {})}
        unknown, missing = sorted(numbers.keys() - names), sorted(needed.keys() - numbers)
        if unknown:
            raise ValueError(f"has {brief(unknown[0])}, which is not known")
        if missing:
            raise ValueError(f"has no {missing[0]!r}")
        if kind == "default":
            return
        scaling = {names[name]: number if name == "truncate" else finite_number(name, number)
                   for name, number in numbers.items()}
        if kind != "linear":                          # as theirs: of pretraining, unless given
            scaling.setdefault("original_length", options["context_length"])
        options["rotary_scaling"] = {"kind": kind, **scaling}

    def check(self, value, config):
        """The two keys that may say it say the same."""
        options = {name: getattr(config, name) for name in ("context_length", "d_model", "n_heads",
                                                            "d_head")}
        self.read(value, options)
        if value and options.get("rotary_scaling") != config.rotary_scaling:
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


class Share(Key):
    """Which share of a head is rotated; ours is the number of coordinates."""

    def __init__(self, default=NOTHING):
        self.default = default

    def read(self, value, options):
        width = _width(options)
        rotated = int(width * finite_number("", value))
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


class PreAttention(Key):
    """The number whose root divides scores: not D in some models."""

    def __init__(self, default):
        self.default = default

    def read(self, value, options):
        if finite_number("", value) <= 0:
            raise ValueError("must be above 0")
        options["score_scale"] = value ** -0.5

    def write(self, config):
        scale = config.score_scale
        return config.head_width if scale is None else max(1, round(scale ** -2))


def finite_number(name, value):
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
          "rope_scaling": Rotary(written=True, replaces=("rope_parameters",)),
          "partial_rotary_factor": Old(None, 1.0, 1)}
