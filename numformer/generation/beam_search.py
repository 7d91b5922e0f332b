"""Beam search: keep the most likely partial answers, and return the best complete one."""

import math
from typing import NamedTuple

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_ids, check_number, check_whole
from numformer.finite import quiet
from numformer.functional.softmax import log_softmax
from numformer.generation.greedy_search import check_special, pad_sources
from numformer.generation.sampling import left_padded, next_logits

LARGEST_PENALTY = 1000.0


class Hypothesis(NamedTuple):
    """A complete or partial answer.

    Parameters
    ----------
    ids : tuple of int
        Without BOS and EOS.
    log_p : float
        Its log-probability: the sum over its tokens.
    length : int
        The number of tokens, with EOS.
    """

    ids: tuple
    log_p: float
    length: int


def beam_search(model, sources, padding, bos, eos, beams=4, max_tokens=64, length_penalty=0.6):
    r"""Decode by beam search, with a length penalty.

    .. math::

        s(Y, X) = \frac{\log p(Y \mid X)}{\mathrm{lp}(Y)}, \qquad
        \mathrm{lp}(Y) = \frac{(5 + |Y|)^\alpha}{(5 + 1)^\alpha}

    The most likely next token may lead to an unlikely answer. So each step extends all hypotheses
    by all tokens and keeps the most likely ones. A hypothesis that ends with EOS keeps its beam and
    is not extended. The score s selects among the complete ones: log-probability alone favours
    short answers. With one beam this is `greedy_search`; with as many beams as answers it is
    exhaustive.

    Parameters
    ----------
    model : Layer
        As in `greedy_search`; its caches have ``rows(order)``, which selects sequences.
    sources : list of ndarray of int, shape (S,)
    padding, bos, eos : int
        As in `greedy_search`.
    beams : int
        Number of hypotheses kept for each source.
    max_tokens : int
        Answers are cut after this many tokens, with EOS. One that was cut is returned only if none
        is complete.
    length_penalty : float, at least 0
        :math:`\alpha`; 0 compares the probabilities themselves.

    Returns
    -------
    list of ndarray of int
        The best answer to each source, without BOS and EOS.

    Raises
    ------
    ValueError
        If there are no sources, one is empty, or a setting is out of range.
    NotFinite
        As `generate`.

    References
    ----------
    Wu et al. (2016), "Google's Neural Machine Translation System", eq. 14, without its coverage
    penalty; Vaswani et al. (2017), section 6.1: 4 beams and alpha = 0.6. Beams that are kept by
    complete answers: ``BeamSearchDecoder`` of TensorFlow Addons; without them:
    `pooled_beam_search`.
    """
    check_search("beam_search", beams, max_tokens, length_penalty)
    check_special("beam_search", model, padding=padding, bos=bos, eos=eos)
    inputs, lengths = pad_sources("beam_search", sources, padding)
    with one_blas_thread(), quiet():
        first = model.step(np.full((len(sources), 1), bos), model.begin(inputs, lengths))
        return _best("beam_search", model, *first, eos, beams, max_tokens, length_penalty)


def beam_search_prompts(model, prompts, end, beams=4, max_tokens=64, length_penalty=0.6):
    r"""Continue prompts with a decoder by beam search: `beam_search` whose sources are prompts.

    Parameters
    ----------
    model : Decoder
    prompts : list of ndarray of int, shape (T,)
        Prompts of at least one token, of any lengths: shorter ones get left padding.
    end : int or None
        The id of the token that ends a text; with None, texts end after `max_tokens`.
    beams, max_tokens, length_penalty
        As in `beam_search`.

    Returns
    -------
    list of ndarray of int
        The best continuation of each prompt, without the prompt and the end.

    Raises
    ------
    ValueError, TypeError
        If there is no prompt, one is empty or has ids outside of the vocabulary, a prompt and
        `max_tokens` exceed the context length, a setting is out of range, or the model is no
        decoder whose cache has ``rows``.
    NotFinite
        As `generate`.

    Examples
    --------
    >>> from numformer.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocab_size=5, context_length=16, n_layers=1, n_heads=1, d_model=8)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> found = beam_search_prompts(model, [np.array([1, 2, 3]), np.array([4])], end=0,
    ...                             max_tokens=5)
    >>> len(found), max(map(len, found)) <= 5
    (2, True)
    """
    owner = "beam_search_prompts"
    check_search(owner, beams, max_tokens, length_penalty)
    config = model.config
    check_special(owner, model, end=end)
    for ids in prompts:
        check_ids(owner, "prompts", np.asarray(ids), config.vocab_size)
    longest = max(map(len, prompts), default=0)
    if not longest or longest + max_tokens > config.context_length:
        raise ValueError(f"{owner}: {len(prompts)} prompts of at most {longest} tokens came for "
                         f"max_tokens={max_tokens} and a context_length of "
                         f"{config.context_length}; give at least one, and shorter ones or fewer "
                         "max_tokens.")
    if hasattr(model, "begin"):
        raise TypeError(f"{owner}: {type(model).__name__} reads sources and not prompts; use "
                        "beam_search.")
    with one_blas_thread(), quiet():
        first = model.step(*left_padded([list(ids) for ids in prompts], None))
        if not hasattr(first[1], "rows"):
            raise TypeError(f"{owner}: the cache of {type(model).__name__} has no rows(order), "
                            "which selects the sequences of a beam; give a Decoder.")
        return _best(owner, model, *first, end, beams, max_tokens, length_penalty)


def check_search(owner, beams, max_tokens, length_penalty):
    """ValueError if a setting of a search is out of range."""
    check_whole(owner, "beams", beams)
    check_whole(owner, "max_tokens", max_tokens)
    check_number(owner, "length_penalty", length_penalty, least=0, below=LARGEST_PENALTY)
    if length_penalty * math.log(max_tokens + 5) > 600:               # a float ends at e^709
        raise ValueError(f"{owner}: length_penalty={length_penalty} is too large for max_tokens="
                         f"{max_tokens}: the length to this power is no float.")


def _best(owner, model, logits, cache, eos, beams, max_tokens, length_penalty):
    """The best answer of each row of a cache; the logits (B, T, V) are those of its last step."""
    growing, ended = [[Hypothesis((), 0.0, 0)] for _ in logits], [[] for _ in logits]
    for step in range(max_tokens):
        # (rows, V): a row for each partial hypothesis
        log_p, _ = log_softmax(next_logits(owner, model, logits).astype(np.float64))
        first, parents, last = 0, [], []
        for s, hypotheses in enumerate(growing):
            free = beams - len(ended[s])
            growing[s] = []
            for row, token, score in most_likely(hypotheses, log_p[first:first + len(hypotheses)],
                                                  free):
                parent = hypotheses[row]
                if token == eos:
                    ended[s].append(Hypothesis(parent.ids, score, parent.length + 1))
                else:
                    growing[s].append(Hypothesis((*parent.ids, token), score, parent.length + 1))
                    parents.append(first + row)
                    last.append(token)
            first += len(hypotheses)
        if not parents or step == max_tokens - 1:
            break
        logits, cache = model.step(np.array(last)[:, None], cache.rows(np.array(parents)))
    best = [max(done or cut, key=lambda hypothesis: penalized(hypothesis, length_penalty))
            for done, cut in zip(ended, growing)]
    return [np.array(hypothesis.ids, int) for hypothesis in best]


def penalized(hypothesis, length_penalty):
    """The score s of a hypothesis.

    Examples
    --------
    >>> penalized(Hypothesis((7,), -3.0, 1), 0.6)
    -3.0
    >>> penalized(Hypothesis((7, 8, 9, 7, 8, 9), -3.0, 7), 1.0)
    -1.5
    """
    return hypothesis.log_p / ((5 + hypothesis.length) / 6) ** length_penalty


def most_likely(hypotheses, log_p, n):
    """(index of hypothesis, token, log-probability) of the n most likely continuations."""
    if not hypotheses or not n:
        return
    # (hypotheses, V)
    sums = np.array([hypothesis.log_p for hypothesis in hypotheses])[:, None] + log_p
    for index in np.argsort(-sums, axis=None, kind="stable")[:n]:
        row, token = divmod(int(index), sums.shape[1])
        yield row, token, float(sums[row, token])
