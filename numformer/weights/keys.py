"""What the keys of a published config.json mean to us.

Each key of a family's table is one of these: an `Option` of ours; something that must have a value
(`Fixed`, `Derived`, `Old`); or `IGNORED`, which does not change the mathematics. A table has all
keys that the published class declares. What else is in a file the published code does not read, and
neither do we; `others` are named in one line, but for those of tools.
"""

from reprlib import repr as brief

REQUIRED = object()                                   # of an Option without a default
NOTHING = object()                                    # not written


class Key:
    """What a key means. `default` is what the published implementation takes without the key;
    keys in `replaces` are not read where this one has a value."""

    default, replaces = NOTHING, ()

    def read(self, value, options):
        """Add options of ours to `options`; ValueError if the value is another than ours can be."""

    def check(self, value, config):
        """ValueError if the value does not fit the other options, those of `config`."""

    def write(self, config):
        """The value for a config of ours, or NOTHING."""
        return NOTHING


class Option(Key):
    """The value is that of an option of ours.

    Parameters
    ----------
    name : str
        Of the option.
    default : optional
        The published value where the key is missing; without it, the key must be there.
    values : dict, optional
        Published value -> ours, where they are not the same. Others are refused.
    least : int, optional
        The smallest value.

    Examples
    --------
    >>> options = {}
    >>> Option("feedforward", values={"gelu_new": "gelu_tanh"}).read("gelu_new", options)
    >>> options
    {'feedforward': 'gelu_tanh'}
    """

    def __init__(self, name, default=REQUIRED, values=None, least=None):
        self.name, self.default, self.values, self.least = name, default, values, least

    def read(self, value, options):
        if self.values is not None and (not isinstance(value, str) or value not in self.values):
            raise ValueError(f"must be {' or '.join(map(repr, self.values))}")
        if self.least is not None and not (isinstance(value, int) and value >= self.least):
            raise ValueError(f"must be {self.least} or more")
        options[self.name] = value if self.values is None else self.values[value]

    def write(self, config):
        value = getattr(config, self.name)
        if value is None and self.default is not None:                # theirs must have one
            value = config.optional_sizes.get(self.name)
        if self.values is None:
            return value
        return next((theirs for theirs, ours in self.values.items() if ours == value), value)


class Flag(Key):
    """True or false, each of which is a value of an option of ours.

    Examples
    --------
    >>> options = {}
    >>> Flag("gates_over", true="chosen", false="all").read(False, options)
    >>> options
    {'gates_over': 'all'}
    """

    def __init__(self, name, true, false, default=REQUIRED):
        self.name, self.values, self.default = name, {True: true, False: false}, default

    def read(self, value, options):
        if type(value) is not bool:
            raise ValueError("must be true or false")
        options[self.name] = self.values[value]

    def write(self, config):
        return getattr(config, self.name) == self.values[True]


class Same(Option):
    """A second key of an option, such as that of another part of the model: it must agree.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> Same("epsilon", 1e-5).check(1e-6, SimpleNamespace(epsilon=1e-5))
    Traceback (most recent call last):
    ValueError: must be 1e-05, as another part of the model has it
    """

    def read(self, value, options):
        super().read(value, {})

    def check(self, value, config):
        found = {}
        super().read(value, found)
        if found[self.name] != getattr(config, self.name):
            raise ValueError(f"must be {self.write(config)!r}, as another part of the model has it")


class Rows(Key):
    """A number of rows, of which `more` are not used: the option of ours is without them."""

    default = REQUIRED

    def __init__(self, name, more):
        self.name, self.more = name, more

    def read(self, value, options):
        if type(value) is not int or value <= self.more:
            raise ValueError(f"must be a whole number above {self.more}")
        options[self.name] = value - self.more

    def write(self, config):
        return getattr(config, self.name) + self.more


class Fixed(Key):
    """The value must be one of these, of which the first is written; null is as good as false."""

    def __init__(self, *values, default=NOTHING):
        self.values, self.default = values, default

    def read(self, value, options):
        null = value is None and any(one is False for one in self.values)
        if not null and not any(type(value) is type(one) and value == one for one in self.values):
            raise ValueError(f"must be {' or '.join(map(repr, self.values))}")

    def write(self, config):
        return self.values[0]


class Old(Fixed):
    """A key that must have one of these values where a file has it; it is not written."""

    def write(self, config):
        return NOTHING


class Derived(Key):
    """The value must be what other options give: ``function(config)``; null is as good."""

    def __init__(self, function, default=None):
        self.function, self.default = function, default

    def check(self, value, config):
        if value is not None and value != self.function(config):
            raise ValueError(f"must be {self.function(config)}, as the other keys say")

    def write(self, config):
        return self.function(config)


class Ignored(Key):
    """The value does not change the mathematics."""


IGNORED = Ignored()


class Written(Ignored):
    """The value is not read; ``function(config)`` is written."""

    def __init__(self, function):
        self.function = function

    def write(self, config):
        return self.function(config)


# Of dropout in a part of the model; ours has one rate, which another key says
RATE = Written(lambda config: config.dropout)


class OtherName(Option):
    """Another name of an option, which may be missing and is not written."""

    def __init__(self, name, default=NOTHING, values=None, least=None):
        super().__init__(name, default, values, least)

    def write(self, config):
        return NOTHING


class Labels(Key):
    """The names of the classes, by number; only how many they are is an option of ours."""

    default, replaces = {"0": "LABEL_0", "1": "LABEL_1"}, ("num_labels",)

    def read(self, value, options):
        if not isinstance(value, dict):
            raise ValueError("must be an object")
        options["n_classes"] = len(value)

    def write(self, config):
        return {str(number): f"LABEL_{number}" for number in range(config.n_classes)}


# Of every family: what the base class of published configs wrote, in any of its versions, is about
# names, labels, training, generated texts and memory
COMMON = dict.fromkeys("""
    architectures attn_implementation bad_words_ids begin_suppress_tokens bos_token_id
    chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id diversity_penalty
    do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id eos_token_ids
    experts_implementation exponential_decay_length_penalty finetuning_task forced_bos_token_id
    forced_eos_token_id gradient_checkpointing id2label initializer_factor initializer_range
    is_decoder is_encoder_decoder label2id length_penalty max_length min_length model_type n_ctx
    no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences
    output_attentions output_hidden_states output_past output_scores pad_token_id prefix
    problem_type remove_invalid_values repetition_penalty return_dict return_dict_in_generate
    sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss
    tie_word_embeddings tokenizer_class top_k top_p torch_dtype torchscript transformers_version
    typical_p use_bfloat16 use_cache use_return_dict xla_device
""".split(), IGNORED) | {
    # Of other heads, other layers or other weights, unless they say that there are none
    "add_cross_attention": Old(False), "pruned_heads": Old({}, None),
    "quantization_config": Old(None), "rope_interleaved": Old(False),
    "tie_encoder_decoder": Old(False), "transformers_weights": Old(None)}

# How keys of tools begin; a class declares none that begins with an underscore
_TOOLS = ("_", "auto_map", "is_llama_config", "neftune_", "sentence_transformers", "transformers",
          "unsloth")


def others(table, facts):
    """Keys of a config.json that a table does not have, and that no tool is known to write.

    The published code does not read them.

    Examples
    --------
    >>> others({"n_head": IGNORED}, {"n_head": 2, "_num_labels": 1, "surprise": 3})
    ['surprise']
    >>> others({}, {"transformers.js_config": {}, "unsloth_fixed": True})
    []
    """
    return sorted(key for key in facts if key not in table and not any(
        part.startswith(_TOOLS) for part in key.split(".")))


def flat(facts, parts):
    """The content of a config.json with the keys of its parts as ``part.key``.

    Of old files a part has a second form, ``part_dict``, which replaces it.

    Examples
    --------
    >>> flat({"text_config": {"hidden_size": 8}, "projection_dim": 4}, ["text_config"])
    {'projection_dim': 4, 'text_config.hidden_size': 8}
    """
    whole = {key: value for key, value in facts.items()
             if key not in [part + end for part in parts for end in ("", "_dict")]}
    for part in parts:
        chosen = part if facts.get(f"{part}_dict") is None else f"{part}_dict"
        inner = facts.get(chosen) or {}
        if not isinstance(inner, dict):
            raise ValueError(f"{chosen!r} = {brief(inner)} must be an object")
        whole |= {f"{part}.{key}": value for key, value in inner.items()}
    return whole


def nested(facts, parts):
    """The inverse of `flat`."""
    whole = {part: {} for part in parts}
    for key, value in facts.items():
        part, dot, inner = key.partition(".")
        if dot and part in parts:
            whole[part][inner] = value
        else:
            whole[key] = value
    return whole


def read_keys(table, facts):
    """Our options from a config.json.

    Parameters
    ----------
    table : dict of str to Key
    facts : dict
        The content of config.json.

    Raises
    ------
    ValueError
        For the first key that is missing, or has a value that ours cannot be.
    """
    options = {}
    for key, meaning in table.items():
        value = facts.get(key, meaning.default)
        if value is REQUIRED:
            raise ValueError(f"the key {key!r} is missing")
        if value is not NOTHING:
            _tried(meaning.read, key, value, options)
    return options


def check_keys(table, facts, config):
    """ValueError for the first key whose value does not fit the config that all of them gave."""
    for key, meaning in table.items():
        value = facts.get(key, meaning.default)
        if value is not NOTHING:
            _tried(meaning.check, key, value, config)


def write_keys(table, config):
    """What `read_keys` reads as a config, by key."""
    values = {key: meaning.write(config) for key, meaning in table.items()}
    return {key: value for key, value in values.items() if value is not NOTHING}


def _tried(function, key, value, other):
    try:
        function(value, other)
    except ValueError as error:
        raise ValueError(f"{key!r} = {brief(value)} {error}") from None
