"""A family of published models: its config.json, its tensors, and the model of ours that it is."""

import re
from dataclasses import dataclass, field, replace
from typing import Callable

from numformer.layers.blocks.local import SLIDING
from numformer.weights.keys import COMMON, check_keys, flat, nested, others, read_keys, write_keys

# Options that change how a model is trained or stored, not what it computes
TRAINING_ONLY = ("dtype", "init_std", "dropout", "balance_weight", "router_z_weight",
                 "temperature", "objective", "margin", "scale")
# Ends of names that converters of TensorFlow's files have left
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclass(frozen=True, kw_only=True)
class Family:
    """One table for reading, writing, gradients and tests.

    Parameters
    ----------
    name : str
        Its own, and ``model_type`` of config.json unless given.
    model_type : str, optional
        Several families may have the same one, with different heads.
    model : type
        Ours: a class of `numformer.models`.
    architectures : tuple of str
        Of config.json; the first one is written.
    options : dict
        Options of ours that all its models have.
    keys : dict of str to Key
        Of config.json, in addition to those of all families.
    parts : tuple of str
        Keys of config.json that hold a config of their own; `keys` has theirs as ``part.key``.
    rows : callable
        ``rows(config)``: the `Row` of every parameter.
    copies : dict of str to str
        Tensors that a file may repeat -> the tensor that they must equal; ``{name: name}``. Where
        one is a parameter of its own, as the head of models with tied=False, it is no copy.
    prefix : str
        Before names of tensors; a file of the model without its head leaves it out.
    outer : str
        Before names of tensors in a file of the model with a head, which this family has not.
    head : str
        A tensor that the family has, and others with its `model_type` have not.
    buffers : str
        A regular expression: tensors that are no parameters.
    zeros : dict of str to callable
        Tensors that a file may hold, but of zeros alone, as the model has no such parameter:
        ``shape(config)`` of each. They are written.
    renamed : dict of str to str
        Ends of names in old files -> those of today, in addition to those of all families.
    by_names : callable, optional
        ``by_names(names)``: options of ours that depend on which tensors there are.
    settle : callable, optional
        ``settle(options, names)``: those that depend on other options, too.
    architecture : callable, optional
        ``architecture(config)``: what is written, if it is not the first.
    elsewhere : tuple of str
        Options of ours that other files than config.json hold.
    """

    name: str
    model: type
    architectures: tuple
    keys: dict
    rows: Callable
    parts: tuple = ()
    options: dict = field(default_factory=dict)
    copies: dict = field(default_factory=dict)
    model_type: str = ""
    prefix: str = ""
    outer: str = ""
    head: str = ""
    buffers: str = r"(?!)"
    zeros: dict = field(default_factory=dict)
    renamed: dict = field(default_factory=dict)
    by_names: Callable = lambda names: {}
    settle: Callable = lambda options, names: {}
    architecture: Callable | None = None
    elsewhere: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "model_type", self.model_type or self.name)

    @property
    def kind(self):
        """The name of our model in `numformer.models.KINDS`."""
        return self.model.__name__

    @property
    def table(self):
        """All keys of config.json."""
        common = {f"{part}.{key}": meaning for part in self.parts
                  for key, meaning in COMMON.items()}
        return COMMON | common | self.keys

    def flat(self, facts):
        """The content of a config.json with the keys of its parts as ``part.key``."""
        return flat(facts, self.parts)

    def others(self, facts):
        """Keys of a config.json that nothing reads: see `keys.others`."""
        return others(self.table, self.flat(facts))

    def config(self, facts, names, dtype, **options):
        """Our config for the content of a config.json and the names of the tensors.

        Options of ours may come from elsewhere.

        Raises
        ------
        ValueError
            If a key changes the mathematics to what our model cannot compute.
        """
        found = facts.get("architectures") or [self.architectures[0]]
        if not isinstance(found, list) or found[0] not in self.architectures:
            raise ValueError(f"'architectures' = {found!r} must be one of "
                             f"{', '.join(self.architectures)}")
        facts = self.flat(facts)
        replaced = {name for key, meaning in self.table.items() if facts.get(key)
                    for name in meaning.replaces}
        facts = {key: value for key, value in facts.items() if key not in replaced}
        options = {**self.options, **read_keys(self.table, facts), **self.by_names(names),
                   "dtype": dtype, **options}
        config = self.model.config_class.from_dict({**options, **self.settle(options, names)})
        check_keys(self.table, facts, config)
        return config

    def facts(self, config):
        """The content of a config.json for a config of ours, which it may not fit: see `fits`."""
        architecture = (self.architecture(config) if self.architecture else self.architectures[0])
        return {"architectures": [architecture], "model_type": self.model_type,
                **nested(write_keys(self.table, config), self.parts), "torch_dtype": config.dtype}

    def differences(self, config):
        """Options in which the family's own model would differ from a config: {name: value}."""
        try:
            names = {row.theirs for row in self.rows(config)}
            own = self.config(self.facts(config), names, config.dtype)
        except ValueError as error:
            return {"config.json": str(error)}
        own, wanted = (_comparable(each) for each in (own, config))
        return {name: value for name, value in wanted.items()
                if own[name] != value and name not in (*TRAINING_ONLY, *self.elsewhere)}

    def same(self, config, other):
        """Whether two configs are of the same model, whatever their spelling and training."""
        one, two = (_comparable(each) for each in (config, other))
        return all(one[name] == two[name] for name in one if name not in TRAINING_ONLY)

    def canonical(self, names):
        """{name in the file: name in the table} of all but the buffers."""
        found = {}
        for name in names:
            if re.fullmatch(self.buffers, name):
                continue
            known = name
            for old, new in (OLD_NAMES | self.renamed).items():
                known = known.removesuffix(old) + new if known.endswith(old) else known
            found[name] = known.removeprefix(self.outer)
        # A model without its head: no name has the prefix
        if not any(name.startswith(self.prefix) for name in found.values()):
            found = {name: self.prefix + known for name, known in found.items()}
        return found

    def copies_of(self, config):
        """Tensors that a file of this config may repeat, and which ones they repeat."""
        own = {row.theirs for row in self.rows(config)}
        return {name: first for name, first in self.copies.items() if name not in own}


def _comparable(config):
    """The options of a config, with the defaults that depend on others."""
    if getattr(config, "n_class_heads", 0) is None:
        config = replace(config, n_class_heads=config.n_class_tokens)
    if not hasattr(config, "hidden_width"):
        return config.as_dict()
    if hasattr(config, "text"):                       # two encoders, with sizes of their own
        return replace(config, **config.optional_sizes, qkv_bias=_qkv_bias(config)).as_dict()
    c = replace(config, d_hidden=config.hidden_width, d_head=config.head_width,
                n_kv_heads=config.n_kv_heads or config.n_heads,
                qkv_bias=_qkv_bias(config))
    if c.positions == "rotary" and c.d_rotary is None:
        c = replace(c, d_rotary=c.head_width)
    if c.scaled_scores and c.score_scale is None:
        c = replace(c, score_scale=c.head_width ** -0.5)
    values = c.as_dict()
    if hasattr(c, "n_encoder_layers"):
        values["n_encoder_layers"] = c.n_encoder_layers or c.n_layers
    if hasattr(c, "layer_kinds"):
        local = SLIDING in c.layer_kinds
        values |= {"layer_types": c.layer_kinds, "sliding_window": c.sliding_window * local}
        if not local or c.local_rotary_base is None and c.rotary_scaling is None:
            values["local_rotary_base"] = c.rotary_base
    return values


def _qkv_bias(config):
    """The option, or None if it says what `bias` says."""
    return None if config.qkv_bias == config.bias else config.qkv_bias
