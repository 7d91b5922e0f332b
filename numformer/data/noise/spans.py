"""Noise to restore a text from: spans behind sentinels (T5), infilling and permutation (BART).

Texts come without special tokens; `pair_batch` adds BOS, EOS and padding. Spans never touch each
other, and all arrangements of spans of given lengths are equally likely.
"""

import numpy as np

from numformer.checks import check_generator, check_ids, check_number, check_whole


def corrupt_spans(ids, sentinels, rng, rate=0.15, mean_span=3):
    r"""Replace spans by sentinels; the target holds each sentinel, followed by its span.

    "thank you for inviting me to your party last week" becomes "thank you <X> me to your party <Y>
    week", with the target "<X> for inviting <Y> last <Z>". Of N tokens,
    :math:`m = \mathrm{round}(\text{rate}\, N)` are hidden in
    :math:`k = \mathrm{round}(m / \text{mean span})` spans: at least one of each, and at least one
    token stays. Every span has at least one token, and all ways to cut m into k lengths are equally
    likely.

    Parameters
    ----------
    ids : ndarray of int, shape (N,)
        Two tokens or more, none of them a sentinel.
    sentinels : sequence of int
        In the order of use, one more than there are spans; the last one used ends the target.
    rng : numpy.random.Generator
    rate : float in (0, 1)
    mean_span : float, 1 or more

    Returns
    -------
    source, target : ndarray of int, shapes (N - m + k,) and (m + k + 1,)

    Raises
    ------
    ValueError, TypeError
        If the text is too short or holds a sentinel, or there are too few sentinels.

    References
    ----------
    Raffel et al. (2020), "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", sections 3.1.4 and 3.3.4, figure 2.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> source, target = corrupt_spans(np.arange(10), [101, 102, 103], rng, rate=0.4, mean_span=2)
    >>> source
    array([  0,   1,   2, 101,   5,   6, 102,   9])
    >>> target
    array([101,   3,   4, 102,   7,   8, 103])
    """
    owner = "corrupt_spans"
    _check_text(owner, ids, rng, rate)
    check_number(owner, "mean_span", mean_span, least=1)
    sentinels = np.asarray(sentinels)
    check_ids(owner, "sentinels", sentinels, size=2**31)
    if len(ids) < 2:
        raise ValueError(f"{owner}: a text of {len(ids)} token cannot be hidden in part; "
                         "give two or more.")
    if np.isin(ids, sentinels).any():
        raise ValueError(f"{owner}: ids hold a sentinel; give a text without special tokens.")
    n = len(ids)
    hidden = min(max(1, round(rate * n)), n - 1)
    spans = min(max(1, round(hidden / mean_span)), n - hidden + 1)    # a token between any two
    if len(sentinels) < spans + 1:
        raise ValueError(f"{owner}: a text of {n} tokens has {spans} spans, but there are "
                         f"{len(sentinels)} sentinels; give {spans + 1}.")
    starts, lengths = _arrange(_cut(hidden, spans, rng), n, rng)

    source, target, end = [], [], 0
    for sentinel, start, length in zip(sentinels, starts, lengths):
        source += [ids[end:start], [sentinel]]
        target += [[sentinel], ids[start : start + length]]
        end = start + length
    return np.concatenate([*source, ids[end:]]), np.concatenate([*target, [sentinels[spans]]])


def hide_tokens(ids, mask_id, rng, rate=0.15):
    r"""Replace single tokens by the mask: BART's token masking, where the whole text is the target.

    Parameters
    ----------
    ids : ndarray of int, shape (N,)
    mask_id : int
    rng : numpy.random.Generator
    rate : float in (0, 1)
        :math:`\mathrm{round}(\text{rate}\, N)` tokens are masked, at least one.

    Returns
    -------
    ndarray of int, shape (N,)

    Raises
    ------
    ValueError, TypeError
        If the text is empty or holds the mask, or the rate is out of range.

    References
    ----------
    Lewis et al. (2020), "BART: Denoising Sequence-to-Sequence Pre-training", section 2.2.

    Examples
    --------
    >>> hide_tokens(np.arange(10), 99, np.random.default_rng(0), rate=0.3)
    array([ 0,  1,  2,  3,  4, 99, 99,  7,  8, 99])
    """
    _check_maskable("hide_tokens", ids, mask_id, rng, rate)
    noisy = ids.copy()
    noisy[rng.choice(len(ids), size=max(1, round(rate * len(ids))), replace=False)] = mask_id
    return noisy


def infill(ids, mask_id, rng, rate=0.3, mean_span=3):
    r"""Replace each span by one mask: the model has to find out how many tokens are missing.

    Lengths come from a Poisson distribution until :math:`m = \mathrm{round}(\text{rate}\, N)`
    tokens (at least one) are hidden; the last length is cut to fit. A span of length 0 puts a mask
    where nothing is missing. If the text has no space for more spans apart, the last one takes all
    tokens that are left to hide.

    Parameters
    ----------
    ids : ndarray of int, shape (N,)
    mask_id : int
    rng : numpy.random.Generator
    rate : float in (0, 1)
    mean_span : float, above 0

    Returns
    -------
    ndarray of int, shape (N - m + number of spans,)

    Raises
    ------
    ValueError, TypeError
        If the text is empty or holds the mask, or the rate is out of range.

    References
    ----------
    Lewis et al. (2020), "BART: Denoising Sequence-to-Sequence Pre-training", section 2.2; the rate
    is that of section 5.

    Examples
    --------
    >>> infill(np.arange(10), 99, np.random.default_rng(0))
    array([99,  1,  2,  3, 99,  4,  5,  6, 99,  9])
    """
    _check_maskable("infill", ids, mask_id, rng, rate)
    check_number("infill", "mean_span", mean_span, above=0)
    n = len(ids)
    hidden = max(1, round(rate * n))
    most_spans = n - hidden + 1                                       # a token between any two
    lengths, left = [], hidden
    while left:
        last = len(lengths) + 1 == most_spans
        lengths.append(left if last else min(int(rng.poisson(mean_span)), left))
        left -= lengths[-1]

    noisy, end = [], 0
    lengths = rng.permutation(lengths)                                # the one cut to fit: anywhere
    for start, length in zip(*_arrange(lengths, n, rng)):
        noisy += [ids[end:start], [mask_id]]
        end = start + length
    return np.concatenate([*noisy, ids[end:]])


def permute_sentences(sentences, rng):
    """Put the sentences of a document in random order.

    Parameters
    ----------
    sentences : list of ndarray
    rng : numpy.random.Generator

    Returns
    -------
    list of ndarray

    Raises
    ------
    ValueError, TypeError
        If there are none, or `rng` is no generator.

    References
    ----------
    Lewis et al. (2020), "BART: Denoising Sequence-to-Sequence Pre-training", section 2.2.

    Examples
    --------
    >>> sentences = [np.array([1, 2]), np.array([3]), np.array([4, 5])]
    >>> permute_sentences(sentences, np.random.default_rng(0))
    [array([4, 5]), array([1, 2]), array([3])]
    """
    check_generator("permute_sentences", rng, optional=False)
    if not sentences:
        raise ValueError("permute_sentences: there are no sentences; give at least one.")
    return [sentences[i] for i in rng.permutation(len(sentences))]


def _cut(total, parts, rng):
    """Cut a number into `parts` summands of at least one, all ways equally likely."""
    cuts = np.sort(rng.choice(total - 1, size=parts - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=total)


def _arrange(lengths, n, rng):
    """(starts, lengths) of spans among n tokens, in order, at least one token between any two."""
    lengths = np.asarray(lengths)
    # Gaps before, between and after the spans. The outer two may be empty: two tokens more.
    gaps = _cut(n - lengths.sum() + 2, len(lengths) + 1, rng)
    return np.cumsum(gaps[:-1]) - 1 + np.cumsum(lengths) - lengths, lengths


def _check_text(owner, ids, rng, rate):
    check_generator(owner, rng, optional=False)
    check_number(owner, "rate", rate, above=0, below=1)
    check_ids(owner, "ids", ids, size=2**31)
    if ids.ndim != 1:
        raise ValueError(f"{owner}: ids must have shape (N,), but have {ids.shape}; "
                         "give one text at a time.")


def _check_maskable(owner, ids, mask_id, rng, rate):
    _check_text(owner, ids, rng, rate)
    check_whole(owner, "mask_id", mask_id, least=0)
    if (ids == mask_id).any():
        raise ValueError(f"{owner}: ids hold mask_id={mask_id}; "
                         "give a text without special tokens.")
