"""Sampling: generate text one token at a time, with a KV cache."""

from contextlib import nullcontext

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_generator, check_ids, check_number, check_whole
from numformer.finite import check_logits, check_parameters, quiet
from numformer.functional.softmax import check_top, count_of_top_p
from numformer.layers.token_step import UnknownPart
from numformer.underflow import underflow_is_zero


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
        If a setting is out of range.
    NotFinite
        If the logits hold NaN or +Inf.

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
    return int(choose_tokens(np.asarray(logits)[None], [rng], temperature, top_k, top_p)[0])


@underflow_is_zero
def choose_tokens(logits, rngs, temperature=1.0, top_k=None, top_p=None):
    """`choose_token` for several texts at once: the same tokens, in one pass over all logits.

    Parameters
    ----------
    logits : ndarray, shape (B, V)
    rngs : list of (numpy.random.Generator, or None)
        One for each text, which draws one number.
    temperature, top_k, top_p
        As in `choose_token`.

    Returns
    -------
    ndarray of int, shape (B,)

    Raises
    ------
    ValueError, NotFinite
        As `choose_token`.

    Examples
    --------
    >>> choose_tokens(np.array([[0.0, 2.0], [3.0, 1.0]]), [None, None], temperature=0)
    array([1, 0])
    """
    check_sampling(temperature, top_k, top_p)
    if not logits.size:
        raise ValueError(f"choose_token: logits of shape {logits.shape[1:]} are empty; give at "
                         "least one.")
    check_logits("choose_token", logits)
    if temperature == 0:
        return np.argmax(logits, axis=1)
    for rng in rngs:
        check_generator("choose_token", rng)
        if rng is None:
            raise ValueError("choose_token: rng is missing; give numpy.random.default_rng(seed), "
                             "or temperature=0.")
    top = logits.max(axis=1, keepdims=True)                          # (B, 1)
    order = (-logits).argsort(axis=1, kind="stable")[:, :top_k]      # (B, k), most likely first
    sorted_logits = np.take_along_axis(logits, order, axis=1)
    with np.errstate(over="ignore"):                  # a tiny temperature gives -Inf, probability 0
        p = np.exp((sorted_logits.astype(np.float64) - top) / temperature)
    p /= p.sum(axis=1, keepdims=True)
    sums = p.cumsum(axis=1)
    if top_p is not None:
        fewest = count_of_top_p(p, top_p, logits.dtype)               # (B, 1)
        p = np.where(np.arange(p.shape[1]) < fewest, p, 0.0)
        sums = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)
    drawn = np.array([[rng.random()] for rng in rngs])                # (B, 1)
    # the sum of p may round to less than 1: then the last token that can be chosen
    index = np.minimum((sums <= drawn).sum(axis=1), (p > 0).sum(axis=1) - 1)
    return order[np.arange(len(order)), index]


def check_sampling(temperature=1.0, top_k=None, top_p=None):
    """Check the settings of `choose_token`.

    Raises
    ------
    ValueError
        If one is out of range.
    """
    check_number("choose_token", "temperature", temperature, least=0)
    check_top("choose_token", top_k, top_p)


def generate(model, ids, tokens, rng=None, temperature=1.0, top_k=None, top_p=None, weights=None,
             end=None):
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
        Number of new tokens; with `end`, the largest number.
    rng, temperature, top_k, top_p
        As in `choose_token`.
    weights : "bfloat16" or "int8", optional
        Read weights of fewer bits, for speed: see `numformer.functional.quantization`, and
        `rounded_weights` for the loss that it costs.
    end : int or sequence of int, optional
        The id of the token that ends a text, such as EOS, or of several. It is not yielded.

    Yields
    ------
    int

    Raises
    ------
    ValueError, TypeError
        If the prompt is empty or has ids outside of the vocabulary, or an option is out of range.
    NotFinite
        If the logits of a step are not finite; a parameter that is not is named.

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
    for chosen in generate_batch(model, [ids], tokens, [rng], temperature, top_k, top_p, weights,
                                 end):
        yield int(chosen[0])


def generate_batch(model, prompts, tokens, rngs=None, temperature=1.0, top_k=None, top_p=None,
                   weights=None, end=None):
    """Continue several sequences at once, yielding the new token of each.

    Prompts may differ in length. Each is continued as by `generate`: shorter ones get left padding,
    which is masked. A batch costs little more than one sequence, because the weights are read once.

    Parameters
    ----------
    model : Decoder
    prompts : list of ndarray of int, shape (T,)
        Prompts of at least one token.
    tokens : int
        Number of new tokens of each; with `end`, the largest number.
    rngs : list of numpy.random.Generator, optional
        One for each prompt; needed unless the temperature is 0.
    temperature, top_k, top_p
        As in `choose_token`.
    weights : "bfloat16" or "int8", optional
        As in `generate`.
    end : int or sequence of int, optional
        The id of the token that ends a text, or of several. A text that has ended yields the one
        that ended it from then on, and nothing is yielded once all have ended.

    Yields
    ------
    ndarray of int, shape (B,)

    Raises
    ------
    ValueError, TypeError
        If there is no prompt, one is empty or has ids outside of the vocabulary, or an option is
        out of range.
    NotFinite
        As `generate`.

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
    ends = end_ids("generate", model, end)
    ended, chosen = np.zeros(len(texts), bool), None
    last = {"last": True} if hasattr(model, "new_cache") else {}      # of a prompt, one is enough
    cache = None if weights is None else _cache_of(model, weights)
    starts = None                                          # first cached token of each text
    for _ in range(tokens):
        new_starts = [context_start(len(text), model.config.context_length) for text in texts]
        cache = _restarted(cache, starts, new_starts)
        if cache is None or not len(cache):                           # all begin, or begin again
            new = [text[start:] for text, start in zip(texts, new_starts)]
        else:
            new = [text[-1:] if old == start else text[start:]
                   for text, old, start in zip(texts, starts, new_starts)]
        starts = new_starts
        logits, cache = step_logits("generate", model, *left_padded(new, cache), **last)
        before, chosen = chosen, choose_tokens(logits, rngs, temperature, top_k, top_p)
        if ends.size:
            chosen = np.where(ended, before, chosen) if ended.any() else chosen
            ended = np.isin(chosen, ends)
            if ended.all():
                return
        for text, token in zip(texts, chosen):
            text.append(int(token))
        yield chosen


def step_logits(owner, model, ids, cache, left_padding=None, **last):
    """The logits of the next token (B, V) after a step of a model with `ids` (B, T); and the cache.
    """
    # reproducible for any number of threads; the compiled step has no products of BLAS
    with nullcontext() if getattr(cache, "is_compiled", False) else one_blas_thread(), quiet():
        logits, cache = model.step(ids, cache, left_padding, **last)
    return next_logits(owner, model, logits), cache


def end_ids(owner, model, end):
    """The ids that end a text as an array (k,); ValueError or TypeError if one is no id."""
    ends = np.atleast_1d(np.array([] if end is None else end))
    if ends.size:
        check_ids(owner, "end", ends, model.config.vocab_size)
    return ends


def next_logits(owner, model, logits):
    """The last logits (B, V) of a step's (B, T, V), from which a token is chosen.

    Raises
    ------
    NotFinite
        If a row has no largest one: the same error in all ways to decode.
    """
    logits = logits[:, -1]
    check_logits(owner, logits, model)
    return logits


def _cache_of(model, weights):
    """A cache with rounded copies of a model's weights."""
    if not hasattr(model, "new_cache"):
        raise UnknownPart("generate: the compiled step, which reads such weights, does not know "
                          f"a {type(model).__name__}; leave weights out.")
    check_parameters(model, "generate: ")             # a NaN has no code in 8 bits
    return model.new_cache(weights)


def _restarted(cache, starts, new_starts):
    """The cache without the texts whose context begins elsewhere now; None to begin with all."""
    if cache is None or starts is None or starts == new_starts:
        return cache
    if not hasattr(cache, "restarted"):
        return None
    return cache.restarted(np.array(starts) != np.array(new_starts))


def _checked(model, ids):
    check_ids("generate", "ids", ids, model.config.vocab_size)
    return [int(i) for i in ids]


def left_padded(texts, cache):
    """Texts as rows (B, T), the cache, and left padding (B,); None if all have one length."""
    longest = max(map(len, texts))
    if longest == min(map(len, texts)):
        return np.array(texts), cache, None
    left_padding = np.array([longest - len(text) for text in texts])
    ids = np.array([[0] * n + text for n, text in zip(left_padding, texts)])
    return ids, cache, left_padding


def context_start(length, context_length):
    """The first token in the context of a sequence of some length, as in `generate`.

    Examples
    --------
    >>> [context_start(length, 8) for length in (1, 8, 9, 12, 13, 17)]
    [0, 0, 4, 4, 8, 12]
    """
    half = max(1, context_length // 2)
    return max(0, -(-(length - context_length) // half)) * half
