"""Predictions of a language model: the loss of every token, and the distribution of the next."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_array, check_ids, check_number
from numformer.functional import log_softmax
from numformer.functional.softmax import check_top, count_of_top_p
from numformer.models.decoder.model import Decoder
from numformer.models.recurrent.language_model import StatefulLanguageModel
from numformer.underflow import underflow_is_zero


def token_losses(model, ids):
    r"""The cross-entropy of every token of a text but the first, given the tokens before it.

    .. math:: L_t = -\log p(x_t \mid x_{<t})

    A text that is longer than the context is read in windows that overlap by half. So every token
    after the first window is predicted from at least half a context.

    Parameters
    ----------
    model : Decoder, RecurrentLanguageModel or ConvolutionLanguageModel
    ids : ndarray of int, shape (T,)
        The text, at least two tokens.

    Returns
    -------
    ndarray of float64, shape (T - 1,), nats
        Of the tokens 1 to T - 1.

    Raises
    ------
    ValueError, TypeError
        If the model is no language model, the text is too short, or an id is out of range.

    References
    ----------
    Jelinek et al. (1977), "Perplexity, a measure of the difficulty of speech recognition tasks":
    the mean of these losses is the logarithm of the perplexity.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=4, n_layers=1, n_heads=1, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> token_losses(model, np.array([1, 2, 3, 4, 0, 1, 2])).shape
    (6,)
    """
    check_language_model("token_losses", model)
    context = model.config.context_length
    check_ids("token_losses", "ids", ids, model.config.vocab_size)
    if ids.ndim != 1 or len(ids) < 2:
        raise ValueError(f"token_losses: ids must have shape (T,) with T of 2 or more, but have "
                         f"{ids.shape}.")
    inputs, targets, known = ids[:-1], ids[1:], 0
    losses = np.empty(len(targets))
    with one_blas_thread():
        for start in range(0, len(inputs), max(1, context // 2)):
            window = slice(start, start + context)
            logits = model(inputs[None, window])[0].astype(np.float64)            # (window, V)
            log_p, _ = log_softmax(logits)
            found = -log_p[np.arange(len(log_p)), targets[window]]
            losses[known:start + len(found)] = found[known - start:]
            known = start + len(found)
            if known == len(targets):
                break
    return losses


@underflow_is_zero
def next_token_distribution(logits, temperature=1.0, top_k=None, top_p=None):
    r"""The probabilities from which `numformer.generation.choose_token` samples.

    .. math:: p_i \propto e^{z_i / \tau}, \qquad i \in \text{top-}k \cap \text{top-}p

    Top-p is measured among the k most likely tokens, after their probabilities have been normalized
    to one; ties go to the smaller id.

    Parameters
    ----------
    logits : ndarray, shape (V,)
    temperature : float, above 0
        tau: below 1 sharpens, above 1 flattens the distribution.
    top_k : int, optional
        Only the k most likely tokens have a probability.
    top_p : float in (0, 1], optional
        Only the smallest set of most likely tokens whose probabilities sum to p or more.

    Returns
    -------
    ndarray of float64, shape (V,)

    Raises
    ------
    ValueError, TypeError
        If an option is out of range, or the logits are no finite floats.

    References
    ----------
    Temperature: Ackley, Hinton and Sejnowski (1985), "A Learning Algorithm for Boltzmann Machines".
    Top-k: Fan, Lewis and Dauphin (2018), section 5.4. Top-p: Holtzman et al. (2020), "The Curious
    Case of Neural Text Degeneration", section 3.1.

    Examples
    --------
    >>> logits = np.log([0.5, 0.2, 0.3])
    >>> next_token_distribution(logits).round(2)
    array([0.5, 0.2, 0.3])
    >>> next_token_distribution(logits, top_p=0.7)
    array([0.625, 0.   , 0.375])
    """
    owner = "next_token_distribution"
    V = check_array(owner, "logits", logits, "(V,)")["V"]
    check_number(owner, "temperature", temperature, above=0)
    check_top(owner, top_k, top_p)
    if not np.isfinite(logits).all():
        raise ValueError(f"{owner}: logits hold NaN or Inf; give finite ones.")
    order = (-logits).argsort(kind="stable")[:top_k]                  # most likely first
    best = logits[order].astype(np.float64)
    with np.errstate(over="ignore"):                  # a tiny temperature gives -Inf, probability 0
        p = np.exp((best - best[0]) / temperature)
    p /= p.sum()
    if top_p is not None:
        p = np.where(np.arange(len(p)) < count_of_top_p(p, top_p, logits.dtype), p, 0)
        p /= p.sum()
    whole = np.zeros(V)
    whole[order] = p
    return whole


def check_language_model(owner, model):
    """ValueError unless a model gives the logits of next tokens."""
    if not isinstance(model, (Decoder, StatefulLanguageModel)):
        raise ValueError(f"{owner}: {type(model).__name__} gives no logits of next tokens; give a "
                         "Decoder, or a recurrent or convolutional language model.")
