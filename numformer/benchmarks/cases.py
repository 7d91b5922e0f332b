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


def check_gpt2(owner, model):
    """Refuse a decoder that another program does not compute.

    Parameters
    ----------
    owner : str
        Begins the error message.
    model : Decoder

    Raises
    ------
    ValueError
        If the decoder has other options than GPT-2 (it may have biases or not).
    """
    options = dict(norm="layer_norm", norm_first=True, feedforward="gelu_tanh", positions="learned",
                   tied=True, embedding_scale=False, query_key_norm=False, n_kv_heads=None)
    other = [name for name, option in options.items() if getattr(model.config, name) != option]
    other += [name for name in ("label_smoothing", "z_loss") if getattr(model, name)]
    if other:
        raise ValueError(f"{owner}: model must have GPT-2's options, but has others for "
                         f"{', '.join(other)}.")
