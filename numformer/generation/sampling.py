"""Sampling: generate text one token at a time, with a KV cache."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_generator, check_ids, check_number, check_whole


def choose_token(logits, rng=None, temperature=1.0, top_k=None, top_p=None):
    r"""Sample a token from logits.

    .. math:: p_i \propto e^{z_i / \tau}, \qquad i \in \text{top-}k \cap \text{top-}p

    Parameters
    ----------
    logits : ndarray, shape (V,)
    rng : numpy.random.Generator, optional
        Needed unless the temperature is 0.
    temperature : float, at least 0
        tau: below 1 sharpens, above 1 flattens the distribution; 0 is greedy.
    top_k : int, optional
        Sample from the k most likely tokens.
    top_p : float in (0, 1], optional
        Sample from the smallest set of most likely tokens whose probabilities sum to p or more.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If a setting is out of range, or the logits hold NaN or +Inf.

    References
    ----------
    top-k: Fan, Lewis, Dauphin (2018), section 5.4. top-p: Holtzman et al. (2020), "The Curious Case
    of Neural Text Degeneration", section 3.1.

    Examples
    --------
    >>> logits = np.array([0.0, 2.0, 1.0])
    >>> choose_token(logits, temperature=0), choose_token(logits, np.random.default_rng(0), top_k=1)
    (1, 1)
    """
    check_sampling(temperature, top_k, top_p)
    top = logits.max()
    if not np.isfinite(top):                                        # NaN, +Inf, or nothing but -Inf
        raise ValueError(f"choose_token: the largest of the logits is {top}; the model's "
                         "parameters are not finite.")
    if temperature == 0:
        return int(np.argmax(logits))
    check_generator("choose_token", rng)
    if rng is None:
        raise ValueError("choose_token: rng is missing; give numpy.random.default_rng(seed), or "
                         "temperature=0.")

    order = np.argsort(-logits, kind="stable")[:top_k]                # most likely first
    with np.errstate(over="ignore"):                  # a tiny temperature gives -Inf, probability 0
        scores = (logits[order].astype(np.float64) - top) / temperature
    p = np.exp(scores)
    p /= p.sum()
    if top_p is not None:
        fewest = int(np.searchsorted(np.cumsum(p), top_p)) + 1        # until the sum reaches top_p
        order, p = order[:fewest], p[:fewest] / p[:fewest].sum()
    index = np.searchsorted(np.cumsum(p), rng.random(), side="right")
    return int(order[min(index, len(order) - 1)])     # the sum of p may round to less than 1


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
    """Continue a sequence, yielding each new token.

    The model sees at most its context length. When the context is full, the older half is dropped
    and the rest is encoded again from position 0: one long step per half a context. The context is
    thus a function of the sequence alone, and the text is the same with and without a cache.

    Parameters
    ----------
    model : Decoder
    ids : ndarray of int, shape (T,)
        The prompt, at least one token.
    tokens : int
        Number of new tokens.
    rng, temperature, top_k, top_p
        As in `choose_token`.

    Yields
    ------
    int

    Raises
    ------
    ValueError, TypeError
        If the prompt is empty or has ids outside of the vocabulary, or an option is out of range.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> len(list(generate(model, np.array([1, 2, 3]), 20, np.random.default_rng(0))))
    20
    """
    check_ids("generate", "ids", ids, model.config.vocab_size)
    if ids.ndim != 1:
        raise ValueError(f"generate: ids must have shape (T,), but have {ids.shape}.")
    for chosen in generate_batch(model, [ids], tokens, [rng], temperature, top_k, top_p):
        yield int(chosen[0])


def generate_batch(model, prompts, tokens, rngs=None, temperature=1.0, top_k=None, top_p=None):
    """Continue several sequences at once, yielding the new token of each.

    Prompts may differ in length. Each is continued as by `generate`: shorter ones get left padding,
    which is masked. A batch costs little more than one sequence, because the weights are read once.

    Parameters
    ----------
    model : Decoder
    prompts : list of ndarray of int, shape (T,)
        Prompts of at least one token.
    tokens : int
        Number of new tokens of each.
    rngs : list of numpy.random.Generator, optional
        One for each prompt; needed unless the temperature is 0.
    temperature, top_k, top_p
        As in `choose_token`.

    Yields
    ------
    ndarray of int, shape (B,)

    Raises
    ------
    ValueError, TypeError
        If there is no prompt, one is empty or has ids outside of the vocabulary, or an option is
        out of range.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> prompts = [np.array([1, 2, 3]), np.array([4])]
    >>> np.stack(list(generate_batch(model, prompts, 20, temperature=0))).shape
    (20, 2)
    """
    check_whole("generate", "tokens", tokens, least=0)
    texts, rngs = [_checked(model, ids)
                   for ids in prompts], [None] * len(prompts) if rngs is None else rngs
    if not texts or len(rngs) != len(texts):
        raise ValueError(f"generate_batch: {len(texts)} prompts and {len(rngs)} generators; give "
                         "at least one prompt, and a generator each.")
    cache, starts = None, None                             # starts: first cached token of each text
    for _ in range(tokens):
        new_starts = [context_start(len(text), model.config.context_length) for text in texts]
        if cache is None or new_starts != starts:
            starts, cache = new_starts, None
            new, left_padding = _left_padded([text[start:] for text, start in zip(texts, starts)])
        else:
            new, left_padding = np.array([[text[-1]] for text in texts]), None
        with one_blas_thread():                             # reproducible for any number of threads
            logits, cache = model.step(new, cache, left_padding)
        chosen = np.array([choose_token(z, rng, temperature, top_k, top_p)
                           for z, rng in zip(logits[:, -1], rngs)])
        for text, token in zip(texts, chosen):
            text.append(int(token))
        yield chosen


def _checked(model, ids):
    check_ids("generate", "ids", ids, model.config.vocab_size)
    return [int(i) for i in ids]


def _left_padded(texts):
    """Texts as rows (B, T), and the left padding of each; None if all have one length."""
    longest = max(map(len, texts))
    left_padding = np.array([longest - len(text) for text in texts])
    ids = np.array([[0] * n + text for n, text in zip(left_padding, texts)])
    return ids, left_padding if left_padding.any() else None


def context_start(length, context_length):
    """The first token in the context of a sequence of some length, as in `generate`.

    Examples
    --------
    >>> [context_start(length, 8) for length in (1, 8, 9, 12, 13, 17)]
    [0, 0, 4, 4, 8, 12]
    """
    half = max(1, context_length // 2)
    return max(0, -(-(length - context_length) // half)) * half
