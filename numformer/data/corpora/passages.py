"""Passages of the library: pairs that follow each other or not, and passages by topic.

Held-out passages come from the held-out `library_sections`, so no sentence is in both parts.
"""

import numpy as np

from numformer.checks import check_whole
from numformer.data.corpora.library import library_sections


def next_sentence_pairs(n, seed, characters=120, held_out=False):
    """Pairs of passages: in half of them the second follows the first, in half it is a random one.

    A section is cut between two sentences. The first passage is the sentences before the cut, the
    second those after it; each has as many sentences as fit, and at least one. A random second
    passage is that after a cut in another section.

    Parameters
    ----------
    n : int
        How many pairs; even.
    seed : int
    characters : int
        The longest passage, unless it is a single sentence.
    held_out : bool

    Returns
    -------
    list of (str, str, bool)
        First passage, second passage, whether the second follows the first; in random order, each
        cut at most once.

    Raises
    ------
    ValueError
        If `n` is odd, or more than there are cuts.
    DataError
        As `library_sections`.

    References
    ----------
    Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers", section 3.1,
    task 2.

    Examples
    --------
    >>> pairs = next_sentence_pairs(100, seed=0)
    >>> sum(follows for _, _, follows in pairs)
    50
    """
    owner = "next_sentence_pairs"
    check_whole(owner, "n", n)
    check_whole(owner, "seed", seed, least=0)
    check_whole(owner, "characters", characters)
    if n % 2:
        raise ValueError(f"{owner}: n={n} must be even, for half of the pairs follow; use {n + 1}.")
    sections = library_sections(held_out)
    cuts = [(s, at) for s, section in enumerate(sections)
            for at in range(1, len(section.sentences))]
    if n > len(cuts):
        raise ValueError(f"{owner}: n={n} is more than the {len(cuts)} positions where a section "
                         "can be cut; ask for fewer, and for others with another seed.")
    rng, pairs = np.random.default_rng([seed, int(held_out)]), []
    for number, cut in enumerate(rng.choice(len(cuts), size=n, replace=False)):
        section, at = cuts[cut]
        follows, other = number < n // 2, (section, at)
        while not follows and other[0] == section:
            other = cuts[rng.integers(len(cuts))]
        first = _run(sections[section].sentences[:at][::-1], characters)[::-1]
        second = _run(sections[other[0]].sentences[other[1]:], characters)
        pairs.append((" ".join(first), " ".join(second), follows))
    return [pairs[i] for i in rng.permutation(n)]


def repeated_passages(pairs, seed):
    """Easy pairs: where the second passage follows the first, replace it by words of the first.

    Whether two passages belong together shows in the words that they share. Consecutive passages
    share few words, which makes this hard to discover; a repetition shares all of its words.

    Parameters
    ----------
    pairs : list of (str, str, bool)
        As from `next_sentence_pairs`.
    seed : int

    Returns
    -------
    list of (str, str, bool)
        The second passage has two to four fifths of the words of the first, consecutive ones, at
        least one.

    Examples
    --------
    >>> repeated_passages([("a b c d e", "f g", True), ("a b", "c d", False)], seed=2)
    [('a b c d e', 'b c', True), ('a b', 'c d', False)]
    """
    check_whole("repeated_passages", "seed", seed, least=0)
    rng, repeated = np.random.default_rng([seed, 3]), []
    for first, second, follows in pairs:
        words = first.split(" ")
        size = max(1, int(len(words) * rng.uniform(0.4, 0.8)))
        start = rng.integers(len(words) - size + 1)
        repetition = " ".join(words[start : start + size])
        repeated.append((first, repetition if follows else second, follows))
    return repeated


def topic_passages(topics=8, characters=200, held_out=False, each=None):
    """Passages labelled with their topic, equally many of each topic.

    The topics are those with the most passages for training. A section is cut into passages of
    consecutive sentences, each as long as fits. Passages of less than half that length are left
    out. So are, evenly spaced, those that a topic has in excess of the smallest topic.

    Parameters
    ----------
    topics : int, 2 or more
    characters : int
        The longest passage.
    held_out : bool
    each : int, optional
        Passages of each topic, at most; all by default.

    Returns
    -------
    passages : list of (str, int)
        Topic by topic, in the library's order.
    names : tuple of str
        The topics' names, sorted: the same for both parts.

    Raises
    ------
    ValueError
        If there are fewer topics.
    DataError
        As `library_sections`.

    Examples
    --------
    >>> passages, names = topic_passages(topics=4, held_out=True)
    >>> len(names), {label for _, label in passages} == {0, 1, 2, 3}
    (4, True)
    >>> max(len(text) for text, _ in passages) <= 200
    True
    """
    check_whole("topic_passages", "topics", topics, least=2)
    check_whole("topic_passages", "characters", characters)
    if each is not None:
        check_whole("topic_passages", "each", each)
    parts = {part: _by_topic(library_sections(part), characters) for part in {False, held_out}}
    most = sorted(parts[False], key=lambda name: (-len(parts[False][name]), name))
    names = tuple(sorted(name for name in most[:topics] if name in parts[held_out]))
    if len(names) < topics:
        raise ValueError(f"topic_passages: topics={topics} is too many for passages of "
                         f"{characters} characters; there are {len(names)}.")
    smallest = min(len(parts[held_out][name]) for name in names)
    each = smallest if each is None else min(each, smallest)
    chosen = [(parts[held_out][name], label) for label, name in enumerate(names)]
    evenly = [(found[i * len(found) // each], label) for found, label in chosen
              for i in range(each)]
    return evenly, names


def topic_triplets(passages, seed):
    """Triplets for sentence embeddings: a passage, another of its topic, and one of another topic.

    Parameters
    ----------
    passages : list of (str, int)
        As from `topic_passages`: two topics or more, two passages or more of each.
    seed : int

    Returns
    -------
    list of (str, str, str)
        In random order; every passage is the first of one triplet.

    Raises
    ------
    ValueError
        If a topic has a single passage, or there is a single topic.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT", section 3: the triplet objective.

    Examples
    --------
    >>> passages = [("cat", 0), ("dog", 0), ("oak", 1), ("elm", 1)]
    >>> sorted(topic_triplets(passages, seed=0))[:2]
    [('cat', 'dog', 'elm'), ('dog', 'cat', 'oak')]
    """
    check_whole("topic_triplets", "seed", seed, least=0)
    labels = np.array([label for _, label in passages])
    if len(set(labels.tolist())) < 2 or np.unique(labels, return_counts=True)[1].min() < 2:
        raise ValueError("topic_triplets: the passages must be of two topics or more, and two or "
                         "more of each.")
    rng, triplets = np.random.default_rng([seed, 2]), []
    for i in rng.permutation(len(passages)):
        same = np.flatnonzero(labels == labels[i])
        other = np.flatnonzero(labels != labels[i])
        chosen = i, rng.choice(same[same != i]), rng.choice(other)
        triplets.append(tuple(passages[k][0] for k in chosen))
    return triplets


def _run(sentences, characters):
    """The first sentences, as many as fit with a space between; at least one."""
    count, length = 1, len(sentences[0])
    while count < len(sentences) and length + 1 + len(sentences[count]) <= characters:
        length += 1 + len(sentences[count])
        count += 1
    return sentences[:count]


def _by_topic(sections, characters):
    """The passages of each topic, of half to all of the given number of characters."""
    found = {}
    for section in sections:
        sentences = section.sentences
        while sentences:
            run = _run(sentences, characters)
            sentences, passage = sentences[len(run):], " ".join(run)
            if characters / 2 <= len(passage) <= characters:
                found.setdefault(section.topic, []).append(passage)
    return found
