"""Greedy decoding with sequence-to-sequence models."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.checks import check_ids, check_whole
from numformer.finite import quiet
from numformer.generation.sampling import next_logits

LARGEST_ID = 2**31                                    # where no vocabulary says less


def greedy_search(model, sources, padding, bos, eos, max_tokens=64):
    """Decode greedily: append the most likely next token until EOS.

    Parameters
    ----------
    model : Layer
        ``begin(inputs (B, S), lengths (B,))`` encodes the sources and returns a cache;
        ``step(ids (B, 1), cache)`` returns the logits (B, 1, V) of the next token and a new cache.
    sources : list of ndarray of int, shape (S,)
    padding, bos, eos : int
        Ids of the padding, BOS and EOS tokens; with None for EOS answers end after `max_tokens`.
    max_tokens : int
        Answers are cut after this many tokens.

    Returns
    -------
    list of ndarray of int
        The answers, without BOS and EOS.

    Raises
    ------
    ValueError
        If there are no sources, or one is empty.
    NotFinite
        As `generate`.
    """
    check_whole("greedy_search", "max_tokens", max_tokens)
    check_special("greedy_search", model, padding=padding, bos=bos, eos=eos)
    inputs, lengths = pad_sources("greedy_search", sources, padding)
    ids, answers, open_ = np.full((len(sources), 1),
                                  bos), [[] for _ in sources], np.ones(len(sources), bool)
    with one_blas_thread(), quiet():
        cache = model.begin(inputs, lengths)
        for _ in range(max_tokens):
            logits, cache = model.step(ids, cache)
            chosen = next_logits("greedy_search", model, logits).argmax(axis=1)       # (B,)
            open_ &= chosen != eos
            if not open_.any():
                break
            for b in np.flatnonzero(open_):
                answers[b].append(int(chosen[b]))
            ids = chosen[:, None]
    return [np.array(answer, int) for answer in answers]


def check_special(owner, model, **ids):
    """Check the ids of padding, BOS and EOS: each one of the vocabulary, if the model has one.

    What ends a text, EOS, may be None.
    """
    size = getattr(getattr(model, "config", None), "vocab_size", LARGEST_ID)
    for name, value in ids.items():
        if value is not None or name not in ("eos", "end"):
            check_whole(owner, name, value, 0, size - 1)


def pad_sources(owner, sources, padding):
    """Sources of any lengths as (inputs (B, S), lengths (B,)), padded on the right.

    Examples
    --------
    >>> pad_sources("demo", [[5, 6], [7]], padding=0)
    (array([[5, 6],
           [7, 0]]), array([2, 1]))
    """
    if not isinstance(sources, (list, tuple, np.ndarray)):
        raise TypeError(f"{owner}: sources must be a list of arrays of ids, but are "
                        f"{type(sources).__name__}.")
    arrays = [np.asarray(source) for source in sources]
    if not arrays or any(not source.size for source in arrays):
        raise ValueError(f"{owner}: give at least one source, and none that is empty.")
    for source in arrays:
        check_ids(owner, "sources", source, LARGEST_ID)               # a float would be truncated
        if source.ndim != 1:
            raise ValueError(f"{owner}: a source must have shape (S,), but has {source.shape}.")
    sources = arrays
    lengths = np.array([len(source) for source in sources])
    inputs = np.full((len(sources), lengths.max()), padding)
    for row, source in zip(inputs, sources):
        row[:len(source)] = source
    return inputs, lengths
