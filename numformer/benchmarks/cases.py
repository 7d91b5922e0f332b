"""Cases of the benchmarks of training and generation: their names and their model."""

import re

import numpy as np

from numformer.models import Decoder, DecoderConfig

VOCABULARY = 65


def read_sizes(name, separators, words):
    """Parse the numbers of a case such as "4x4x128:12x64".

    Parameters
    ----------
    name : str
    separators : str
        The characters between the numbers, in order.
    words : str
        The form and an example, for the error message.

    Raises
    ------
    ValueError
        If the name has another form, or a number is 0.

    Examples
    --------
    >>> read_sizes("6x6x384:1", "xx:", "LAYERSxHEADSxWIDTH:SEQUENCES, for example 6x6x384:1")
    [6, 6, 384, 1]
    """
    found = re.fullmatch(r"(\d+)" + "".join(rf"{separator}(\d+)" for separator in separators), name)
    if not found or not all(int(size) for size in found.groups()):
        raise ValueError(f"case {name!r} must read {words}.")
    return [int(size) for size in found.groups()]


def decoder_config(L, H, C, context_length, vocab_size=VOCABULARY):
    """GPT-2's options without biases, as in nanoGPT's character-level model."""
    return DecoderConfig(vocab_size=vocab_size, context_length=context_length, n_layers=L,
                         n_heads=H, d_model=C, bias=False)


def decoder(config):
    return Decoder(config, np.random.default_rng(0))
