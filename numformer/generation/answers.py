"""Several sampled answers to each prompt, with their log-probabilities: what a reward judges."""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_choice, check_generator, check_ids, check_whole
from numformer.functional import IGNORE_INDEX
from numformer.functional.softmax import log_softmax
from numformer.generation.sampling import (
    check_sampling, choose_tokens, end_ids, left_padded, step_logits)


class Answers(NamedTuple):
    """G sampled answers to each of P prompts, of at most T tokens.

    Parameters
    ----------
    ids : ndarray of int, shape (P, G, T)
        The tokens, with the one that ended the answer; `IGNORE_INDEX` after them.
    lengths : ndarray of int, shape (P, G)
        How many tokens an answer has, with the one that ended it.
    ended : ndarray of bool, shape (P, G)
        False for an answer that was cut off.
    log_probs : ndarray, shape (P, G, T)
        Of each token, in nats; 0 after the last.
    """

    ids: np.ndarray
    lengths: np.ndarray
    ended: np.ndarray
    log_probs: np.ndarray

    def tokens(self, prompt, sample):
        """The tokens of one answer, without the one that ended it: (n,)."""
        n = self.lengths[prompt, sample] - self.ended[prompt, sample]
        return self.ids[prompt, sample, :n]


def sample_answers(model, prompts, samples, tokens, rng=None, temperature=1.0, end=None,
                   reproducible=True):
    r"""Sample several answers to each prompt.

    .. math:: y_t \sim \mathrm{softmax}(z_t / \tau), \qquad
              \ell_t = \log \mathrm{softmax}(z_t / \tau)_{y_t}

    A prompt is read once: its samples begin with copies of its keys and values. An answer that has
    ended leaves the batch, so that the others take less time.

    Parameters
    ----------
    model : Decoder
    prompts : list of ndarray of int, shape (S,)
        P prompts, of at least one token and of any lengths.
    samples : int
        G, answers to each prompt.
    tokens : int
        The most tokens of an answer. Prompt and answer must fit into the context.
    rng : numpy.random.Generator, optional
        Needed unless the temperature is 0. Each answer has a child of it, as of ``rng.spawn``.
    temperature : float, at least 0
        tau; 0 is greedy, and then the log-probabilities are those of temperature 1.
    end : int or sequence of int, optional
        The id of the token that ends an answer, such as EOS, or of several.
    reproducible : bool
        True: an answer is the same, to the bit, as if it were sampled alone, where the model has a
        compiled step. False: products of all texts at once, which round otherwise for another
        number of texts, and are faster from about 128 texts on.

    Returns
    -------
    Answers

    Raises
    ------
    ValueError, TypeError
        If there is no prompt, one is empty or has ids outside of the vocabulary, an answer may not
        fit into the context, or an option is out of range.
    NotFinite
        If the logits of a step are not finite.

    References
    ----------
    Shao et al. (2024), "DeepSeekMath", section 4.1: a group of answers to each prompt.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=8, n_layers=1, n_heads=1, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> prompts = [np.array([1, 2, 3]), np.array([4])]
    >>> answers = sample_answers(model, prompts, 3, 4, np.random.default_rng(0), end=0)
    >>> answers.ids.shape, answers.lengths.shape
    ((2, 3, 4), (2, 3))
    >>> bool((answers.ids[~answers.ended] != 0).all())
    True
    """
    texts, ends = _checked(model, prompts, samples, tokens, rng, temperature, end, reproducible)
    N = len(texts) * samples
    rngs = [None] * N if temperature == 0 else rng.spawn(N)
    ids, log_probs = np.full((N, tokens), IGNORE_INDEX), np.zeros((N, tokens), model.config.dtype)
    ended = np.zeros(N, bool)

    cache = None if reproducible else model.new_cache(compiled=False)
    owner = "sample_answers"
    logits, cache = step_logits(owner, model, *left_padded(texts, cache), last=True)      # (P, V)
    if not hasattr(cache, "rows"):
        raise TypeError(f"sample_answers: the cache of {type(model).__name__} has no rows(order), "
                        "which copies a prompt for its samples; give a Decoder.")
    going = np.repeat(np.arange(len(texts)), samples)                 # each prompt, G times
    logits, cache = logits[going], cache.rows(going)
    going = np.arange(N)                                              # answers that have not ended
    for t in range(tokens):
        chosen = choose_tokens(logits, [rngs[n] for n in going], temperature)
        ids[going, t] = chosen
        log_p, _ = log_softmax(logits / (temperature or 1.0))
        log_probs[going, t] = log_p[np.arange(len(going)), chosen]
        left = np.flatnonzero(~np.isin(chosen, ends))
        ended[np.delete(going, left)] = True
        if not len(left) or t == tokens - 1:
            break
        if len(left) < len(going):
            going, chosen, cache = going[left], chosen[left], cache.rows(left)
        logits, cache = step_logits(owner, model, chosen[:, None], cache, last=True)
    lengths = (ids != IGNORE_INDEX).sum(axis=1)                       # (N,)
    T = lengths.max()
    shape = len(texts), samples
    return Answers(ids[:, :T].reshape(*shape, T), lengths.reshape(shape), ended.reshape(shape),
                   log_probs[:, :T].reshape(*shape, T))


def _checked(model, prompts, samples, tokens, rng, temperature, end, reproducible):
    """The prompts as lists of int, and the ids that end an answer: (k,)."""
    owner = "sample_answers"
    if not hasattr(model, "new_cache"):
        raise TypeError(f"{owner}: model is a {type(model).__name__}; give a Decoder.")
    check_whole(owner, "samples", samples)
    check_whole(owner, "tokens", tokens)
    check_choice(owner, "reproducible", reproducible, [True, False])
    check_sampling(temperature)
    check_generator(owner, rng)
    if rng is None and temperature != 0:
        raise ValueError(f"{owner}: rng is missing; give numpy.random.default_rng(seed), or "
                         "temperature=0.")
    if not len(prompts):
        raise ValueError(f"{owner}: there are no prompts; give at least one.")
    for prompt in prompts:
        check_ids(owner, "prompts", prompt, model.config.vocab_size)
        if np.ndim(prompt) != 1:
            raise ValueError(f"{owner}: a prompt must have shape (S,), but has {np.shape(prompt)}.")
    longest, most = max(map(len, prompts)), model.config.context_length
    if longest + tokens > most:
        raise ValueError(f"{owner}: a prompt of {longest} tokens and an answer of tokens={tokens} "
                         f"do not fit into the context_length of {most}; use fewer tokens.")
    texts = [[int(i) for i in prompt] for prompt in prompts]
    return texts, end_ids(owner, model, end)
