"""Local layers, which attend within a window, among global ones: their options."""

from dataclasses import dataclass

from numformer.config import option
from numformer.layers.blocks.local import FULL, LAYER_TYPES, SLIDING
from numformer.models.transformer.config import TransformerConfig
from numformer.shapes_only import MOST_ARRAYS


@dataclass(frozen=True, kw_only=True)
class LocalLayersConfig(TransformerConfig):
    """A `TransformerConfig` in which some layers may attend within a window only.

    A local layer costs T times the window instead of T times T; the global layers between them
    carry information across the whole sequence. Gemma 2 has a local and a global layer in turns,
    Gemma 3 five local ones and then a global one; a group of ModernBERT is a global layer and two
    local ones.

    References
    ----------
    Beltagy et al. (2020), "Longformer", section 3.1; Jiang et al. (2023), "Mistral 7B", section 2;
    Gemma Team (2024), "Gemma 2", section 2; Warner et al. (2024), "ModernBERT", section 2.1.2.

    Examples
    --------
    >>> config = LocalLayersConfig(n_layers=5, n_heads=1, d_model=2, sliding_window=4096,
    ...                            layer_types="sliding_attention,full_attention")
    >>> [kind.removesuffix("_attention") for kind in config.layer_kinds]
    ['sliding', 'full', 'sliding', 'full', 'sliding']
    """

    sliding_window: int = option(
        "In a local layer, a query attends to positions that differ from its own by less than "
        "this: itself, those right before it, and, where attention is not causal, as many after "
        "it. 0: no layer is local.", 0, least=0)
    layer_types: str | None = option(
        "The kinds of layers, repeated from the first layer to the last: local ones are "
        "sliding_attention. With a sliding window, all are local unless given.", None,
        choices=LAYER_TYPES, several=True)
    local_rotary_base: float | None = option(
        "The rotary base of local layers, which `rotary_scaling` does not scale then; as in global "
        "ones unless given.", None, least=1)

    @property
    def layer_kinds(self):
        """The kind of each layer: n_layers of `LAYER_TYPES`, as published configs list them."""
        types = (self.layer_types or SLIDING if self.sliding_window else FULL).split(",")
        return [types[n % len(types)] for n in range(self.n_layers)]

    @classmethod
    def from_dict(cls, options):
        return super().from_dict(_as_today(options))


def _as_today(options):
    """The options of a config that may have been written before `layer_types` was one.

    Decoders had ``global_every=n`` for a group of n - 1 local layers and then a global one, with 0
    for no global one. Encoders had it for a global layer and then n - 1 local ones, and ``window``
    for the tokens on each side of the query.
    """
    every, n, side = (options.get(name) for name in ("global_every", "n_layers", "window"))
    if type(every) is not int or type(n) is not int or type(side) not in (int, type(None)):
        return options
    options, n, types = dict(options), min(n, MOST_ARRAYS), None
    del options["global_every"]
    if "window" in options:
        del options["window"]
        options["sliding_window"] = side + 1 if side else 0
        types = [FULL] + [SLIDING] * (min(every, n) - 1)
    elif 0 < every <= n:
        types = [SLIDING] * (every - 1) + [FULL]
    options["layer_types"] = ",".join(types) if types and options.get("sliding_window") else None
    return options
