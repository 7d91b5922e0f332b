"""What the keys of a config.json mean that are about local layers."""

from numformer.layers.blocks.local import FULL, LAYER_TYPES, SLIDING
from numformer.weights.keys import NOTHING, Key, Option
from numformer.weights.rotary import Rotary, finite_number

MOST_LAYERS = 1000                                    # of a list with a kind for each


class Window(Key):
    """Tokens that a local layer attends to; null: all of them, which is 0 for us.

    Parameters
    ----------
    default : int, optional
    null : bool
        Whether it may be null; otherwise, `LayerTypes` say that no layer is local.
    both_sides : bool
        Whether the value is the sum of the tokens on both sides of the query, and not of the query
        and those before it.
    """

    def __init__(self, default=None, null=True, both_sides=False):
        self.default, self.null, self.both_sides = default, null, both_sides

    def read(self, value, options):
        least = 2 if self.both_sides else 1
        if (value is None and not self.null) or (
                value is not None and (type(value) is not int or value < least)):
            raise ValueError(f"must be {'null or ' * self.null}a whole number, {least} or more")
        options["sliding_window"] = value // 2 + 1 if self.both_sides else value or 0

    def write(self, config):
        window = config.sliding_window
        if self.both_sides:                           # the file must have one
            return 2 * (window - 1) if window else self.default
        return window or (None if self.null else NOTHING)


class GlobalEvery(Key):
    """Every n-th layer is global, the others are local; `LayerTypes` overrule it.

    Parameters
    ----------
    default : int, optional
        Where there is one, another list of kinds is not refused.
    first : bool
        Whether a group begins with its global layer, or ends with it; then it is not written.
    """

    def __init__(self, default=NOTHING, first=False):
        self.default, self.first = default, first

    def read(self, value, options):
        if type(value) is not int or not 1 <= value <= MOST_LAYERS:
            raise ValueError(f"must be a whole number, 1 to {MOST_LAYERS}")
        local = [SLIDING] * (value - 1)
        options["layer_types"] = ",".join([FULL, *local] if self.first else [*local, FULL])

    def check(self, value, config):
        if self.default is NOTHING and value != self.write(config):
            raise ValueError("says other layers than 'layer_types'")

    def write(self, config):
        kinds = config.layer_kinds
        every = [*kinds[1:], FULL].index(FULL) + 1
        fits = kinds == [SLIDING if n % every else FULL for n in range(len(kinds))]
        return every if self.first and fits else NOTHING


class LayerTypes(Key):
    """The kind of every layer, as `LocalLayersConfig.layer_kinds` lists them.

    Parameters
    ----------
    unless : GlobalEvery, optional
        It is not written where this one is.
    """

    default = None

    def __init__(self, unless=None):
        self.unless = unless

    def read(self, value, options):
        if value is None:
            return
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_LAYERS or any(
                kind not in LAYER_TYPES for kind in value):
            raise ValueError(f"must be null or a list of {' and '.join(map(repr, LAYER_TYPES))}")
        period = next(p for p in range(1, len(value) + 1)             # the shortest group
                      if all(kind == value[n % p] for n, kind in enumerate(value)))
        options["layer_types"] = ",".join(value[:period])

    def check(self, value, config):
        if value is not None and value != config.layer_kinds:
            raise ValueError(f"must have a kind for each of {config.n_layers} layers, and none of "
                             f"{SLIDING!r} without a window")

    def write(self, config):
        if self.unless is not None and self.unless.write(config) is not NOTHING:
            return NOTHING
        return config.layer_kinds


class Base(Option):
    """The base of rotary angles in one kind of layers, which must be a number.

    Parameters
    ----------
    name : str
        "rotary_base" or "local_rotary_base".
    or_global : bool
        Whether null is the base of global layers.
    """

    def __init__(self, name, or_global=False):
        super().__init__(name, NOTHING)
        self.or_global = or_global

    def read(self, value, options):
        options[self.name] = None if value is None and self.or_global else finite_number("", value)

    def check(self, value, config):
        if (config.rotary_base if value is None else value) != self.write(config):
            raise ValueError(f"says another base than 'rope_parameters', {self.write(config)}")

    def write(self, config):
        value = getattr(config, self.name)
        if value is None:
            return config.rotary_base if self.or_global else NOTHING
        return value


class RotaryByLayer(Rotary):
    """`Rotary` for each kind of layers: ``{"full_attention": ..., "sliding_attention": ...}``.

    Parameters
    ----------
    scaled : bool
        Whether the angles of global layers may be scaled, and one value may be that of all layers.
    """

    def __init__(self, scaled=True):
        super().__init__()
        self.scaled = scaled

    def read(self, value, options):
        by_layer = isinstance(value, dict) and value.keys() & set(LAYER_TYPES)
        if value is None or (self.scaled and not by_layer):
            super().read(value, options)
            return
        if not by_layer or not value.keys() <= set(LAYER_TYPES):
            raise ValueError(f"must be null or an object with {' and '.join(LAYER_TYPES)}")
        for kind in LAYER_TYPES:
            found = {"context_length": options["context_length"]}
            super().read(value.get(kind), found)
            if "rotary_scaling" in found and (kind == SLIDING or not self.scaled):
                raise ValueError(f"must have 'default' for layers of {kind!r}")
            if "rotary_base" in found and kind == SLIDING:
                found["local_rotary_base"] = found.pop("rotary_base")
            options.update(found)
