"""The logit lens: predictions after each block, and contributions of components to a logit."""

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.layers import LayerNorm, SoftCappedLMHead
from numformer.models.decoder.model import Decoder
from numformer.analysis.capture import capture, residual_stream
from numformer.parameter import Layer


def logit_lens(model, ids):
    r"""Apply the final norm and the LM head to the residual stream before and after each block.

    .. math:: z^\ell = \mathrm{norm}(x^\ell)\, W^\top, \qquad \ell = 0 \dots L

    Parameters
    ----------
    model : Decoder
    ids : ndarray of int, shape (B, T)

    Returns
    -------
    ndarray, shape (L + 1, B, T, V)
        The last are the model's logits.

    Raises
    ------
    ValueError
        If the model is not a decoder.

    References
    ----------
    nostalgebraist (2020), "interpreting GPT: the logit lens".

    Examples
    --------
    >>> from numformer.models import DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=2, n_heads=1, d_model=4)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> ids = np.array([[1, 2, 3]])
    >>> lens = logit_lens(model, ids)
    >>> lens.shape, bool((lens[-1] == model(ids)).all())
    ((3, 1, 3, 5), True)
    """
    _check_decoder("logit_lens", model)
    return np.stack([model.head(model.norm(x)) for x in residual_stream(model, ids)["blocks"]])


def logit_contributions(model, ids, token, position=-1):
    r"""The contributions of embedding, attentions and feed-forwards to the logit of a token.

    .. math::

        z_v = w_v \cdot \mathrm{norm}\Big(\sum_c c\Big)
        = \sum_c w_v \cdot \gamma \odot (c - \langle c \rangle)\, r + w_v \cdot \beta

    The residual stream after the last pre-norm block is the sum of what each component added. With
    its scale r fixed at the value for the whole sum, the final norm is linear, so the logit
    decomposes into one contribution per component. (RMSNorm subtracts no mean.)

    Parameters
    ----------
    model : Decoder
        With pre-norm blocks: a post-norm block mixes the components.
    ids : ndarray of int, shape (1, T)
    token : int
        The token of the logit.
    position : int
        The position of the prediction; the last by default.

    Returns
    -------
    dict of str to float
        In the order of computation: "embedding", "attention 1", "feed-forward 1", ..., and "bias"
        if the final norm or the head has one.

    Raises
    ------
    ValueError, TypeError
        If the model is not a decoder with pre-norm blocks, or token or position is out of range.

    References
    ----------
    Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits", section "Residual
    stream".

    Examples
    --------
    >>> from numformer.models import DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=4,
    ...                        dtype="float64")
    >>> model, ids = Decoder(config, np.random.default_rng(0)), np.array([[1, 2, 3]])
    >>> parts = logit_contributions(model, ids, token=4)
    >>> list(parts)
    ['embedding', 'attention 1', 'feed-forward 1', 'bias']
    >>> abs(sum(parts.values()) - model(ids)[0, -1, 4]) < 1e-15
    np.True_
    """
    owner = "logit_contributions"
    _check_decoder(owner, model)
    check_ids(owner, "token", np.array([token]), model.config.vocab_size)
    if np.ndim(ids) != 2 or len(ids) != 1 or not all(
            branch.order == "pre" for block in model.blocks for branch in block.branches.values()):
        raise ValueError(f"{owner}: ids must have shape (1, T), but have {np.shape(ids)}, and all "
                         "blocks must be pre-norm.")
    if isinstance(model.head, SoftCappedLMHead):
        raise ValueError(f"{owner}: a soft-capped logit is no sum of parts; give a model without "
                         "logit_softcap.")
    check_whole(owner, "position", position, least=-ids.shape[1])
    if position >= ids.shape[1]:
        raise ValueError(f"{owner}: position={position} must be less than T={ids.shape[1]}.")
    with capture(model, Layer) as seen:
        model(ids)
    outputs = {each.name: each for each in seen}
    parts = {"embedding": outputs["blocks.0"].inputs[0]}
    for k in range(len(model.blocks)):
        parts[f"attention {k + 1}"] = outputs[f"blocks.{k}.attention"].output
        parts[f"feed-forward {k + 1}"] = outputs[f"blocks.{k}.feedforward"].output
    whole, row = outputs["norm"].inputs[0][0, position], model.head.weight.data[token]  # (C,), (C,)
    found = {name: float(row @ _through(model.norm, part[0, position], whole))
             for name, part in parts.items()}
    biases = []
    if getattr(model.norm, "bias", None) is not None:
        biases.append(float(row @ model.norm.bias.data))
    if model.head.bias is not None:
        biases.append(float(model.head.bias.data[token]))
    return {**found, "bias": sum(biases)} if biases else found


def _through(norm, part, whole):
    """The contribution of a part of a vector to the norm of the whole, without the bias."""
    if isinstance(norm, LayerNorm):
        part, whole = part - part.mean(), whole - whole.mean()
    square = (whole * whole).mean()
    size = np.sqrt(square + norm.epsilon) if norm.epsilon_inside else np.sqrt(square) + norm.epsilon
    return norm.arrays[0] * part / size


def _check_decoder(owner, model):
    if not isinstance(model, Decoder):
        raise ValueError(f"{owner}: {type(model).__name__} has no final norm and LM head after its "
                         "blocks; give a Decoder.")
