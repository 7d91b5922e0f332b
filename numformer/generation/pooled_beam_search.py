"""Beam search that collects complete answers in a pool, as fairseq and transformers search."""

from typing import NamedTuple

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_choice
from numformer.finite import quiet
from numformer.functional.softmax import log_softmax
from numformer.generation.beam_search import Hypothesis, check_search, most_likely
from numformer.generation.greedy_search import check_special, pad_sources
from numformer.generation.sampling import next_logits


class Answer(NamedTuple):
    """An answer in the pool.

    Parameters
    ----------
    ids : tuple of int
        Without BOS and EOS.
    score : float
        What answers are ranked by.
    """

    ids: tuple
    score: float


class _Search:
    """The search for the answers to one source."""

    def __init__(self):
        self.growing, self.pool, self.done = [Hypothesis((), 0.0, 0)], [], False


def pooled_beam_search(model, sources, padding, bos, eos, beams=4, max_tokens=64,
                       length_penalty=1.0, early_stopping=False):
    r"""Decode by beam search in which a complete answer makes room for a partial one.

    .. math:: s(Y, X) = \frac{\log p(Y \mid X)}{|Y|^\alpha}

    In `beam_search` an answer that ends keeps its beam. Here it moves to a pool of as many answers
    as there are beams, and the search goes on with as many partial answers as before. Each step
    ranks twice as many continuations as there are beams: of the first half those that end enter the
    pool, and the best that do not end are continued. After the last step partial answers enter,
    too. The answers of the pool are ranked by s, in which the length of Y counts EOS.

    Parameters
    ----------
    model, sources, padding, bos, eos, beams, max_tokens
        As in `beam_search`.
    length_penalty : float, at least 0
        :math:`\alpha`; 0 compares the probabilities themselves.
    early_stopping : False, True or "never"
        When the search for a source ends, once its pool is full. True: at once. False: when s of
        the most likely partial answer, as long as it is now, is not above that of the worst in the
        pool. "never": the same at the length `max_tokens`, which a large penalty favours.

    Returns
    -------
    list of list of Answer
        For each source its pool, the best answer first.

    Raises
    ------
    ValueError
        If there are no sources, one is empty, or a setting is out of range.
    NotFinite
        As `generate`.

    References
    ----------
    Ott et al. (2019), "fairseq: A Fast, Extensible Toolkit for Sequence Modeling"; for when to end:
    Huang, Zhao, Ma (2017), "When to Finish? Optimal Beam Search for Neural Text Generation".

    Examples
    --------
    >>> from numformer.models import EncoderDecoder, EncoderDecoderConfig
    >>> sizes = dict(vocab_size=9, context_length=16, n_layers=1, n_heads=2, d_model=8)
    >>> model = EncoderDecoder(EncoderDecoderConfig(**sizes), np.random.default_rng(0))
    >>> pool, = pooled_beam_search(model, [[4, 5, 6]], 0, 1, 2, beams=3, max_tokens=5)
    >>> len(pool), pool[0].score >= pool[1].score
    (3, True)
    """
    check_search("pooled_beam_search", beams, max_tokens, length_penalty)
    if not isinstance(early_stopping, (bool, str)):                   # 1 == True, but is no choice
        raise ValueError(f"pooled_beam_search: early_stopping={early_stopping!r} is unknown; "
                         "choose from False, True, 'never'.")
    check_choice("pooled_beam_search", "early_stopping", early_stopping, [False, True, "never"])
    check_special("pooled_beam_search", model, padding=padding, bos=bos, eos=eos)
    inputs, lengths = pad_sources("pooled_beam_search", sources, padding)
    searches = [_Search() for _ in sources]
    with one_blas_thread(), quiet():
        logits, cache = model.step(np.full((len(sources), 1), bos), model.begin(inputs, lengths))
        for length in range(1, max_tokens + 1):
            logits = next_logits("pooled_beam_search", model, logits)
            log_p, _ = log_softmax(logits.astype(np.float64))         # (partial answers, V)
            first, parents = 0, []
            for search in searches:
                if search.done:
                    continue
                n = len(search.growing)
                rows = _extend(search, log_p[first:first + n], eos, beams, length_penalty,
                               length == max_tokens)
                best = length if early_stopping != "never" else max_tokens
                search.done = not rows or (
                    len(search.pool) == beams
                    and (early_stopping is True or search.growing[0].log_p / best**length_penalty
                         <= search.pool[-1].score))
                if not search.done:
                    parents += [first + row for row in rows]
                first += n
            if not parents:
                break
            last = [answer.ids[-1] for search in searches if not search.done
                    for answer in search.growing]
            logits, cache = model.step(np.array(last)[:, None], cache.rows(np.array(parents)))
    return [search.pool for search in searches]


def _extend(search, log_p, eos, beams, length_penalty, is_last):
    """Extend the partial answers by a token; the row of log_p (rows, V) that each one extends."""
    before, search.growing, rows = search.growing, [], []
    for rank, (row, token, score) in enumerate(most_likely(before, log_p, 2 * beams)):
        parent = before[row]
        if token != eos and not is_last:
            if len(search.growing) < beams:
                search.growing.append(Hypothesis((*parent.ids, token), score, parent.length + 1))
                rows.append(row)
        elif rank < beams:
            ids = parent.ids if token == eos else (*parent.ids, token)
            search.pool.append(Answer(ids, score / (parent.length + 1) ** length_penalty))
    search.pool = sorted(search.pool, key=lambda answer: -answer.score)[:beams]
    return rows
