"""Writing text with a trained model, one token at a time, with a cache of the keys and values so far."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_ids, check_number, check_whole


def choose_token(logits, rng=None, temperature=1.0, top_k=None, top_p=None):
    r"""Draw a token from a model's scores.

    .. math:: p_i \propto e^{z_i / \tau}, \quad i \in \text{the } k \text{ likeliest, and among the fewest that hold } p \text{ together}

    Parameters
    ----------
    logits : ndarray, shape (V,)
    rng : numpy.random.Generator, optional
        Needed unless the temperature is 0.
    temperature : float, at least 0
        tau: below 1 sharpens, above 1 flattens; 0 takes the likeliest token (greedy).
    top_k : int, optional
        Draw among the k likeliest alone.
    top_p : float in (0, 1], optional
        Draw among the fewest likeliest tokens whose probabilities sum to at least p.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If a setting is out of range, or the logits hold NaN or +Inf.

    References
    ----------
    top-k: Fan, Lewis, Dauphin (2018), section 5.4. top-p: Holtzman et al. (2020), "The Curious Case of Neural Text
    Degeneration", section 3.1.

    Examples
    --------
    >>> logits = np.array([0.0, 2.0, 1.0])
    >>> choose_token(logits, temperature=0), choose_token(logits, np.random.default_rng(0), top_k=1)
    (1, 1)
    """
    check_sampling(temperature, top_k, top_p)
    top = logits.max()
    if not np.isfinite(top):                                          # NaN, +Inf, or nothing but -Inf
        raise ValueError(f"choose_token: the largest of the logits is {top}; the model's parameters are broken.")
    if temperature == 0:
        return int(np.argmax(logits))
    if rng is None:
        raise ValueError("choose_token: rng is missing; give numpy.random.default_rng(seed), or temperature=0.")

    order = np.argsort(-logits, kind="stable")[:top_k]                # likeliest first
    with np.errstate(over="ignore"):                                  # a tiny temperature: -Inf, and so a probability of 0
        scores = (logits[order].astype(np.float64) - top) / temperature
    p = np.exp(scores)
    p /= p.sum()
    if top_p is not None:
        fewest = int(np.searchsorted(np.cumsum(p), top_p)) + 1        # as many as first reach top_p
        order, p = order[:fewest], p[:fewest] / p[:fewest].sum()
    place = np.searchsorted(np.cumsum(p), rng.random(), side="right")
    return int(order[min(place, len(order) - 1)])                     # a sum of p may round to a little below 1


def check_sampling(temperature=1.0, top_k=None, top_p=None):
    """Check the settings of `choose_token`.

    Raises
    ------
    ValueError
        If one is out of range.
    """
    check_number("choose_token", "temperature", temperature, least=0)
    if top_k is not None:
        check_whole("choose_token", "top_k", top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"choose_token: top_p={top_p!r} must be above 0 and at most 1.")


def generate(model, ids, tokens, rng=None, temperature=1.0, top_k=None, top_p=None):
    """Continue a sequence, yielding each new token as it is chosen.

    The model sees at most its context length. When that is full, the older half is let go and the rest is read again from
    position 0: one long step for half a context of short ones. What the model sees is thus a function of the
    sequence alone, and the text the same with and without a cache.

    Parameters
    ----------
    model : Decoder
    ids : ndarray of int, shape (T,)
        The prompt, at least one token.
    tokens : int
        How many to add.
    rng, temperature, top_k, top_p
        As in `choose_token`.

    Yields
    ------
    int

    Raises
    ------
    ValueError, TypeError
        If the prompt is empty or holds no ids of the model's vocabulary, or a setting is out of range.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8), np.random.default_rng(0))
    >>> len(list(generate(model, np.array([1, 2, 3]), 20, np.random.default_rng(0))))
    20
    """
    check_whole("generate", "tokens", tokens, least=0)
    check_ids("generate", "ids", ids, model.config.vocab_size)
    if ids.ndim != 1:
        raise ValueError(f"generate: ids must have shape (T,), but have {ids.shape}.")
    text, cache, read = [int(i) for i in ids], None, 0                # read: tokens of the text that the cache holds or has let go
    for _ in range(tokens):
        start = context_start(len(text), model.config.context_length)
        if cache is None or start > read - cache[0][0].shape[2]:
            cache, read = None, start
        with one_blas_thread():                                       # the same bits on any machine with this BLAS
            logits, cache = model.step(np.array([text[read:]]), cache)
        read = len(text)
        text.append(choose_token(logits[0, -1], rng, temperature, top_k, top_p))
        yield text[-1]


def context_start(length, context_length):
    """The first token that a model sees of a sequence of some length, by the rule of `generate`.

    Examples
    --------
    >>> [context_start(length, 8) for length in (1, 8, 9, 12, 13, 17)]
    [0, 0, 4, 4, 8, 12]
    """
    half = max(1, context_length // 2)
    return max(0, -(-(length - context_length) // half)) * half
