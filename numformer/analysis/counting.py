"""Parameters, FLOPs per token and cache bytes of a model, counted without allocating it."""

from contextlib import suppress
from dataclasses import fields, replace
from reprlib import repr as brief

from numformer.config import whole_numbers
from numformer.shapes_only import MOST_ARRAYS, MOST_NUMBERS, TooLarge, only_shapes

SMALL = 1, 2, 4, 8, 16, 64                            # sizes to find the one that is too large


def count(config):
    r"""Count the costs of a model, built from its config with arrays that take no memory.

    .. math:: \mathrm{FLOPs} = 2 \sum_W |W| + \sum_{\text{attention}} 4 H D\, n

    A multiplication and an addition are two operations. The first sum runs over all weight matrices
    (with the LM head, tied or not; without lookup tables). The second is q . k and p . v, for the n
    keys that a query attends to at full context: T, or fewer on average with causal or local
    attention. A token of an encoder-decoder is one source token and one target token, also in the
    bytes of its cache; a token of BERT passes all of its heads. Of E experts only the k of a token
    count, in the sums and as active parameters. The backward pass costs twice the forward.

    Parameters
    ----------
    config : dataclass
        The config of a model in `numformer.models.KINDS`.

    Returns
    -------
    dict
        ``parameters``; ``active_parameters``, those used for a token; ``flops_per_token`` of a
        forward pass; ``training_flops_per_token``, three times that; ``kv_bytes_per_token``, the
        growth of the KV cache, and ``state_bytes``, the recurrent state of a sequence, both in the
        config's dtype, or 0. For an image model ``parameters``, ``flops_per_image`` and
        ``training_flops_per_image``; for CLIP ``parameters``, ``flops_per_image``,
        ``flops_per_text`` and ``training_flops_per_pair``, and for its text encoder alone
        ``flops_per_text`` and ``training_flops_per_text``; for two recurrent networks
        ``parameters``, ``state_bytes``, and ``kv_bytes_per_source_token``, which attention
        reads, 0 without it.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> count(CONFIGS["gpt2-xl"])["parameters"]
    1557611200
    >>> count(CONFIGS["bert-base"])["parameters"]
    110106428
    """
    return model_of_shapes(config).costs()


def parameter_shapes(config):
    """The names and shapes of a model's parameters, without memory for one of them.

    Parameters
    ----------
    config : dataclass
        As for `count`.

    Returns
    -------
    dict of str to tuple of int
        In the order of the model's `named_parameters`; a tied parameter stands there once.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> shapes = parameter_shapes(CONFIGS["gpt2"])
    >>> len(shapes), shapes["embedding.weight"], shapes["blocks.11.attention.query.weight"]
    (196, (50257, 768), (768, 768))
    """
    return {name: parameter.data.shape
            for name, parameter in model_of_shapes(config).named_parameters()}


def model_of_shapes(config, arrays=MOST_ARRAYS, numbers=MOST_NUMBERS):
    """The model of a config, whose parameters have shapes, but take no memory.

    Parameters
    ----------
    config : Config
    arrays, numbers : int
        How many parameters the model may have, and how many numbers in them. A machine, a file or
        NumPy holds no more.

    Raises
    ------
    TooLarge
        If it has more of them: within a second or so, whatever its sizes are, and with the name of
        the size that is too large.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> from dataclasses import replace
    >>> model_of_shapes(replace(CONFIGS["t5-small"], n_encoder_layers=600), arrays=2000)
    Traceback (most recent call last):
    numformer.shapes_only.TooLarge: EncoderDecoderConfig: n_encoder_layers=600 is too large for \
a model of at most 2000 arrays with 1.15e+18 numbers; choose a smaller one.
    """
    from numformer.models import KINDS                                # imports this module

    kind = next(model for model, its_config in KINDS.values() if type(config) is its_config)

    def built(config):
        try:
            with only_shapes(arrays, numbers):
                return kind(config, rng=None)
        except (TooLarge, OverflowError, MemoryError):
            return None

    model = built(config)
    if model is None:
        name = _largest(config, lambda smaller: built(smaller) is not None)
        raise TooLarge(f"{type(config).__name__}: {name}={brief(getattr(config, name))} is too "
                       f"large for a model of at most {arrays} arrays with {numbers:.3g} numbers; "
                       "choose a smaller one.")
    return model


def _largest(config, fits):
    """The name of the size without which a config is small enough, or of the largest one."""
    sizes = {}
    for field in fields(config):
        value = getattr(config, field.name)
        with suppress(ValueError):                    # it is no size
            sizes[field.name] = [value] if type(value) is int else list(
                whole_numbers("", "", value)[1])
    names = sorted(sizes, key=lambda name: -max(sizes[name]))
    for name in names:
        for size in SMALL:
            numbers = [min(number, size) for number in sizes[name]]
            value = numbers[0] if type(getattr(config, name)) is int else tuple(numbers)
            with suppress(ValueError):                # it does not fit the other options
                if fits(replace(config, **{name: value})):
                    return name
    return names[0]
