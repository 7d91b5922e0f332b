"""Writing an answer to a text that was read: by models with an encoder and a decoder, or two recurrent networks."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_whole


def write_greedily(model, sources, padding, begin, end, longest=64):
    """The likeliest next token, again and again, until the end.

    Parameters
    ----------
    model : Layer
        ``begin(inputs (B, S), lengths (B,))`` reads the sources and returns a cache, a value; ``step(ids (B, 1), cache)`` returns the
        logits (B, 1, V) of the next token, and the cache after it.
    sources : list of ndarray of int, shape (S,)
    padding, begin, end : int
        Ids: what fills up a source, what an answer begins with, and what ends it.
    longest : int
        Tokens after which an answer is cut.

    Returns
    -------
    list of ndarray of int
        The answers, without begin and end.

    Raises
    ------
    ValueError
        If there are no sources, or one is empty.
    """
    check_whole("write_greedily", "longest", longest)
    inputs, lengths = lay_sources("write_greedily", sources, padding)
    ids, answers, open_ = np.full((len(sources), 1), begin), [[] for _ in sources], np.ones(len(sources), bool)
    with one_blas_thread():
        cache = model.begin(inputs, lengths)
        for _ in range(longest):
            logits, cache = model.step(ids, cache)
            chosen = np.argmax(logits[:, -1], axis=-1)                # (B,)
            open_ &= chosen != end
            if not open_.any():
                break
            for b in np.flatnonzero(open_):
                answers[b].append(int(chosen[b]))
            ids = chosen[:, None]
    return [np.array(answer, int) for answer in answers]


def lay_sources(owner, sources, padding):
    """Sources of any lengths as (inputs (B, S), lengths (B,)), padded at their ends.

    Examples
    --------
    >>> lay_sources("demo", [[5, 6], [7]], padding=0)
    (array([[5, 6],
           [7, 0]]), array([2, 1]))
    """
    if not len(sources) or min(map(len, sources)) == 0:
        raise ValueError(f"{owner}: give at least one source, and none that is empty.")
    lengths = np.array([len(source) for source in sources])
    inputs = np.full((len(sources), lengths.max()), padding)
    for row, source in zip(inputs, sources):
        row[:len(source)] = source
    return inputs, lengths
