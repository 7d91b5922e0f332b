"""The logit lens: what a language model would say after each block, and what every part of it adds to the score of a token."""

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.layers import LayerNorm, PreNormBlock
from numformer.models.decoder import Decoder
from numformer.models.watch import residual_stream, watch
from numformer.parameter import Layer


def logit_lens(model, ids):
    r"""The logits that the last norm and the head make of the vectors before the first block and after each.

    .. math:: z^\ell = \mathrm{norm}(x^\ell)\, W^\top, \qquad \ell = 0 \dots L

    Parameters
    ----------
    model : Decoder
    ids : ndarray of int, shape (B, T)

    Returns
    -------
    ndarray, shape (L + 1, B, T, V)
        The last are the model's own.

    Raises
    ------
    ValueError
        If the model is no decoder.

    References
    ----------
    nostalgebraist (2020), "interpreting GPT: the logit lens".

    Examples
    --------
    >>> from numformer.models import DecoderConfig
    >>> model = Decoder(DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=1, d_model=4), np.random.default_rng(0))
    >>> ids = np.array([[1, 2, 3]])
    >>> lens = logit_lens(model, ids)
    >>> lens.shape, bool((lens[-1] == model(ids)).all())
    ((3, 1, 3, 5), True)
    """
    _check_decoder("logit_lens", model)
    return np.stack([model.head(model.norm(x)) for x in residual_stream(model, ids)["blocks"]])


def logit_contributions(model, ids, token, place=-1):
    r"""What the embedding, and the attention and feed-forward of every block, add to the logit of a token; the sum is that logit.

    .. math:: z_v = w_v \cdot \mathrm{norm}\Big(\sum_c c\Big) = \sum_c w_v \cdot \gamma \odot (c - \langle c \rangle)\, r + w_v \cdot \beta

    The vector after the last pre-norm block is the sum of what each part wrote into the residual stream. The norm is linear in it, once
    its scale r is held at what it is for the whole sum; so the logit falls apart into the same sum. (RMSNorm takes no mean away.)

    Parameters
    ----------
    model : Decoder
        With pre-norm blocks: after a post-norm block the parts are no longer told apart.
    ids : ndarray of int, shape (1, T)
    token : int
        Whose logit.
    place : int
        After which of the ids; the last unless given.

    Returns
    -------
    dict of str to float
        In the order in which the parts run: "embedding", "attention 1", "feed-forward 1", ..., and "shift" where the last norm has one.

    Raises
    ------
    ValueError, TypeError
        If the model is no decoder with pre-norm blocks, or the token or the place is not there.

    References
    ----------
    Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits", section "Residual stream".

    Examples
    --------
    >>> from numformer.models import DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=4, dtype="float64")
    >>> model, ids = Decoder(config, np.random.default_rng(0)), np.array([[1, 2, 3]])
    >>> parts = logit_contributions(model, ids, token=4)
    >>> list(parts)
    ['embedding', 'attention 1', 'feed-forward 1', 'shift']
    >>> abs(sum(parts.values()) - model(ids)[0, -1, 4]) < 1e-15
    np.True_
    """
    owner = "logit_contributions"
    _check_decoder(owner, model)
    check_ids(owner, "token", np.array([token]), model.config.vocab_size)
    if np.ndim(ids) != 2 or len(ids) != 1 or not all(isinstance(block, PreNormBlock) for block in model.blocks):
        raise ValueError(f"{owner}: ids must have shape (1, T), but have {np.shape(ids)}, and the model must have pre-norm blocks alone.")
    check_whole(owner, "place", place, least=-ids.shape[1])
    if place >= ids.shape[1]:
        raise ValueError(f"{owner}: place={place} must be one of the T={ids.shape[1]} ids, counted from 0.")
    with watch(model, Layer) as seen:
        model(ids)
    outputs = {each.name: each for each in seen}
    parts = {"embedding": outputs["blocks.0"].inputs[0]}
    for k in range(len(model.blocks)):
        parts[f"attention {k + 1}"] = outputs[f"blocks.{k}.attention"].output
        parts[f"feed-forward {k + 1}"] = outputs[f"blocks.{k}.feedforward"].output
    whole, row = outputs["norm"].inputs[0][0, place], model.head.weight.data[token]       # (C,), (C,)
    found = {name: float(row @ _through(model.norm, part[0, place], whole)) for name, part in parts.items()}
    if getattr(model.norm, "shift", None) is not None:
        found["shift"] = float(row @ model.norm.shift.data)
    return found


def _through(norm, part, whole):
    """What a part of a vector becomes in the norm of the whole vector, without its shift."""
    if isinstance(norm, LayerNorm):
        part, whole = part - part.mean(), whole - whole.mean()
    square = (whole * whole).mean()
    size = np.sqrt(square + norm.epsilon) if norm.epsilon_inside else np.sqrt(square) + norm.epsilon
    return norm.gain.data * part / size


def _check_decoder(owner, model):
    if not isinstance(model, Decoder):
        raise ValueError(f"{owner}: {type(model).__name__} has no blocks with a norm and a head after them; give a Decoder.")
