"""What the benchmarks of training and generation share: how a case is read, and the model that it is about."""

import re

import numpy as np

from numformer.models import Decoder, DecoderConfig

VOCABULARY = 65


def read_sizes(name, separators, words):
    """The whole numbers of a case such as "4x4x128:12x64".

    Parameters
    ----------
    name : str
    separators : str
        What stands between the numbers, in order.
    words : str
        The form and an example, for the error.

    Raises
    ------
    ValueError
        If it does not read so, or a number is 0.

    Examples
    --------
    >>> read_sizes("6x6x384:1", "xx:", "LAYERSxHEADSxWIDTH:TEXTS, for example 6x6x384:1")
    [6, 6, 384, 1]
    """
    found = re.fullmatch(r"(\d+)" + "".join(rf"{separator}(\d+)" for separator in separators), name)
    if not found or not all(int(size) for size in found.groups()):
        raise ValueError(f"case {name!r} must read {words}.")
    return [int(size) for size in found.groups()]


def decoder_config(L, H, C, context_length):
    """GPT-2's choices without biases, as in nanoGPT's model for characters."""
    return DecoderConfig(vocab_size=VOCABULARY, context_length=context_length, n_layers=L, n_heads=H, d_model=C, bias=False)


def decoder(config):
    return Decoder(config, np.random.default_rng(0))
