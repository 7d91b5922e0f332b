"""Beam search: several answers are written side by side, and the one that is likeliest as a whole wins."""

from typing import NamedTuple

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_number, check_whole
from numformer.functional.softmax import log_softmax
from numformer.generation.answering import lay_sources


class Hypothesis(NamedTuple):
    """An answer, or what is written of it so far.

    Parameters
    ----------
    ids : tuple of int
        Without begin and end.
    log_p : float
        The sum of the logarithms of its tokens' probabilities.
    length : int
        How many tokens that are: the end is one of them.
    """

    ids: tuple
    log_p: float
    length: int


def beam_search(model, sources, padding, begin, end, beams=4, longest=64, length_penalty=0.6):
    r"""Write the answer that is likeliest as a whole, as far as can be found with so many hypotheses at a time.

    .. math:: s(Y, X) = \frac{\log p(Y \mid X)}{\mathrm{lp}(Y)}, \qquad \mathrm{lp}(Y) = \frac{(5 + |Y|)^\alpha}{(5 + 1)^\alpha}

    The likeliest next token may lead to an unlikely answer. So in every step all hypotheses are continued by all tokens, and the
    likeliest of these are kept; one that ends keeps its place, and is not continued. Among those that ended the score s decides:
    the logarithm alone would favour short ones. With one beam this is `write_greedily`; with as many beams as there are answers,
    it is exhaustive.

    Parameters
    ----------
    model : Layer
        As in `write_greedily`; its caches have ``rows(order)``, the cache of some of their sequences.
    sources : list of ndarray of int, shape (S,)
    padding, begin, end : int
        As in `write_greedily`.
    beams : int
        Hypotheses at a time, for each source.
    longest : int
        Tokens after which an answer is cut, the end among them. One that was cut counts only where no other ended.
    length_penalty : float, at least 0
        :math:`\alpha`; 0 compares the probabilities themselves.

    Returns
    -------
    list of ndarray of int
        The best answer to each source, without begin and end.

    Raises
    ------
    ValueError
        If there are no sources, one is empty, or a setting is out of range.

    References
    ----------
    Wu et al. (2016), "Google's Neural Machine Translation System", eq. 14, without its coverage penalty; Vaswani et al. (2017), section
    6.1: 4 beams and alpha = 0.6.
    """
    check_whole("beam_search", "beams", beams)
    check_whole("beam_search", "longest", longest)
    check_number("beam_search", "length_penalty", length_penalty, least=0)
    inputs, lengths = lay_sources("beam_search", sources, padding)
    growing, ended = [[Hypothesis((), 0.0, 0)] for _ in sources], [[] for _ in sources]
    with one_blas_thread():
        cache, ids = model.begin(inputs, lengths), np.full((len(sources), 1), begin)
        for _ in range(longest):
            logits, cache = model.step(ids, cache)
            log_p, _ = log_softmax(logits[:, -1].astype(np.float64))  # (rows, V): a row for each hypothesis that grows, by source
            first, parents, last = 0, [], []
            for s, hypotheses in enumerate(growing):
                places = beams - len(ended[s])
                growing[s] = []
                for row, token, score in _likeliest(hypotheses, log_p[first:first + len(hypotheses)], places):
                    parent = hypotheses[row]
                    if token == end:
                        ended[s].append(Hypothesis(parent.ids, score, parent.length + 1))
                    else:
                        growing[s].append(Hypothesis((*parent.ids, token), score, parent.length + 1))
                        parents.append(first + row)
                        last.append(token)
                first += len(hypotheses)
            if not parents:
                break
            cache, ids = cache.rows(np.array(parents)), np.array(last)[:, None]
    best = [max(done or cut, key=lambda hypothesis: penalized(hypothesis, length_penalty)) for done, cut in zip(ended, growing)]
    return [np.array(hypothesis.ids, int) for hypothesis in best]


def penalized(hypothesis, length_penalty):
    """The score s of a hypothesis.

    Examples
    --------
    >>> penalized(Hypothesis((7,), -3.0, 1), 0.6), penalized(Hypothesis((7, 8, 9, 7, 8, 9), -3.0, 7), 1.0)
    (-3.0, -1.5)
    """
    return hypothesis.log_p / ((5 + hypothesis.length) / 6) ** length_penalty


def _likeliest(hypotheses, log_p, places):
    """(hypothesis, token, sum of logarithms) of the likeliest continuations, at most as many as there are places."""
    if not hypotheses or not places:
        return
    sums = np.array([hypothesis.log_p for hypothesis in hypotheses])[:, None] + log_p     # (hypotheses, V)
    for place in np.argsort(-sums, axis=None, kind="stable")[:places]:
        row, token = divmod(int(place), sums.shape[1])
        yield row, token, float(sums[row, token])
