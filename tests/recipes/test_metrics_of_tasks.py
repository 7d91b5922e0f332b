"""Metrics against scikit-learn, SciPy or the published rule, on random data and at the edges."""

import re
import string
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from numformer.analysis import (
    attention_entropy, average_precision, mean_average_precision, rouge_l)
from numformer.data import Batch, BytePairTokenizer
from numformer.experiments.meaning.clusters import purity
from numformer.experiments.meaning.sentence_training import cosines, ranks, recall
from numformer.experiments.meaning.word_neighbours import in_line
from numformer.finite import NotFinite
from numformer.functional import box_iou
from numformer.layers import Identity
from numformer.recipes import PRESETS
from numformer.recipes.vision.detection import precision_and_recall
from numformer.recipes.world.answers import token_f1
from numformer.recipes.world.entailment import LABELS, naive_bayes
from numformer.recipes.world.tags import EntityTask, PartOfSpeechTask
from numformer.training import accuracy

TAGS = PartOfSpeechTask.labels


def squad_f1(prediction, truth):
    """The official rule: normalized texts, words as a multiset."""
    def words(text):
        text = "".join(c for c in text.lower() if c not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    found, expected = words(prediction), words(truth)
    common = sum((Counter(found) & Counter(expected)).values())
    if not found or not expected:
        return float(found == expected)
    if not common:
        return 0.0
    precision, recalled = common / len(found), common / len(expected)
    return 2 * precision * recalled / (precision + recalled)


def test_token_f1_is_that_of_squad(rng):
    """For words that its normalization leaves as they are."""
    for _ in range(300):
        one, other = ([str(word) for word in rng.choice(["x", "y", "z"], rng.integers(0, 5))]
                      for _ in range(2))
        assert token_f1(one, other) == pytest.approx(squad_f1(" ".join(one), " ".join(other)))


def test_figures_of_tags_are_those_of_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    for n_labels in (1, 2, 3, len(TAGS)):
        for _ in range(20):
            found, expected = rng.choice(TAGS[:n_labels], (2, rng.integers(1, 30))).tolist()
            figures = PartOfSpeechTask().figures([found], [expected])
            assert figures == {
                "accuracy": pytest.approx(metrics.accuracy_score(expected, found)),
                "macro_f1": pytest.approx(metrics.f1_score(expected, found, average="macro"))}
    figures = PartOfSpeechTask().figures([[TAGS[0], TAGS[1]]], [[TAGS[0], TAGS[0]]])
    assert figures["macro_f1"] == pytest.approx(1 / 3)               # one tag is never expected


def test_tags_of_no_words_have_no_figures():
    with pytest.raises(ValueError, match="pos-tags: there are no words"):
        PartOfSpeechTask().figures([[]], [[]])


def entities(labels):
    """(first, last, kind) by CoNLL's rule, as two regular expressions: B- or a new kind begins."""
    marks = [label if label != "O" else "O-" for label in labels]
    return {(start, end, marks[start][2:]) for start in range(len(marks))
            for end in range(start + 1, len(marks) + 1)
            if marks[start] != "O-"
            and (marks[start][0] == "B" or start == 0 or marks[start - 1][2:] != marks[start][2:])
            and all(mark == f"I-{marks[start][2:]}" for mark in marks[start + 1:end])
            and (end == len(marks) or marks[end] != f"I-{marks[start][2:]}")}


def test_entity_f1_is_that_of_conll(rng):
    labels = ["O", "B-PERSON", "I-PERSON", "B-PLACE", "I-PLACE"]
    for _ in range(200):
        found, expected = rng.choice(labels, (2, rng.integers(1, 8))).tolist()
        one, other = entities(found), entities(expected)
        total = len(one) + len(other)
        assert EntityTask().figures([found], [expected])["entity_f1"] == pytest.approx(
            2 * len(one & other) / total if total else 0)


def test_accuracy_is_that_of_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    logits, labels = rng.standard_normal((23, 4)), rng.integers(0, 4, 23)
    batches = [Batch(inputs=logits[s], labels=labels[s]) for s in (slice(7), slice(7, 23))]
    assert accuracy(Identity(), batches) == pytest.approx(
        metrics.accuracy_score(labels, logits.argmax(axis=1)))


def voc(found, objects, overlap):
    """Average precision as the development kit of PASCAL VOC (2010) computes it, by loops."""
    finds = sorted(((-score, image, box) for image, (scores, boxes) in enumerate(found)
                    for score, box in zip(scores, boxes)), key=lambda find: find[0])
    had, hits = [set() for _ in objects], []
    for _, image, box in finds:
        best, which = -1.0, None
        for k, target in enumerate(objects[image]):
            area = box_iou(box[None], target[None])[0, 0]
            if area > best:
                best, which = area, k
        hits.append(best >= overlap and which not in had[image])
        if hits[-1]:
            had[image].add(which)
    n, true, points = sum(map(len, objects)), 0, []
    for count, hit in enumerate(hits, 1):
        true += hit
        points.append((true / n, true / count))
    recalls, precisions = [0.0, *(r for r, _ in points), 1.0], [0.0, *(p for _, p in points), 0.0]
    for k in reversed(range(len(precisions) - 1)):
        precisions[k] = max(precisions[k], precisions[k + 1])
    return sum((recalls[k] - recalls[k - 1]) * precisions[k] for k in range(1, len(recalls)))


def boxes_of(rng, n):
    low = rng.integers(0, 6, (n, 2)).astype(float)
    return np.concatenate([low, low + rng.integers(1, 5, (n, 2))], axis=1)


def test_average_precision_is_that_of_pascal_voc(rng):
    """With ties, images without objects, and images without finds."""
    for _ in range(60):
        found = [(rng.integers(0, 5, n) / 5, boxes_of(rng, n)) for n in rng.integers(0, 5, 4)]
        objects = [boxes_of(rng, n) for n in rng.integers(0, 4, 4)]
        expected = voc(found, objects, 0.5) if sum(map(len, objects)) else np.nan
        assert average_precision(found, objects) == pytest.approx(expected, nan_ok=True)


def test_mean_average_precision_is_over_classes_with_objects(rng):
    n_classes, found, objects = 4, [], []
    for n, m in rng.integers(0, 6, (5, 2)):
        found.append((rng.integers(0, n_classes, n), rng.random(n), boxes_of(rng, n)))
        objects.append((rng.integers(0, 3, m), boxes_of(rng, m)))     # none of class 3
    own = [voc([(s[y == c], b[y == c]) for y, s, b in found],
               [b[y == c] for y, b in objects], 0.5) for c in range(3)]
    assert mean_average_precision(found, objects, n_classes) == pytest.approx(np.mean(own))


def test_precision_and_recall_of_disjoint_objects(rng):
    """Where a find overlaps one object at most, right finds are objects with a find of their class.
    """
    places = np.arange(8)[:, None] * 10.0 + np.array([0.0, 0, 4, 4])
    for _ in range(30):
        true, n = rng.integers(0, 2, 5), rng.integers(0, 9)
        labels, scores, which = rng.integers(0, 2, n), rng.random(n), rng.integers(0, 8, n)
        sure = scores >= 0.5
        right = len({k for k, label in zip(which[sure], labels[sure])
                     if k < 5 and true[k] == label})
        assert precision_and_recall([(labels, scores, places[which])], [(true, places[:5])]) == (
            right / max(sure.sum(), 1), right / 5)


def test_rouge_l_is_that_of_all_subsequences(rng):
    for _ in range(60):
        one, other = (rng.integers(0, 3, rng.integers(0, 6)).tolist() for _ in range(2))
        longest = max(k for k in range(len(one) + 1) for chosen in combinations(one, k)
                      if chosen in set(combinations(other, k)))
        f = 2 * longest / (len(one) + len(other)) if longest else 0.0
        assert rouge_l(one, other) == pytest.approx(f)


def test_ranks_and_recall_are_those_of_scipy_and_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    scores, right = rng.standard_normal((40, 6)), rng.integers(0, 6, 40)
    for k in (1, 2, 5):
        assert recall(ranks(scores, right), k) == pytest.approx(
            metrics.top_k_accuracy_score(right, scores, k=k, labels=range(6)))
    scores = rng.integers(0, 4, (40, 6)).astype(float)                # with ties
    expected = stats.rankdata(-scores, axis=1)[np.arange(40), right] - 1
    np.testing.assert_allclose(ranks(scores, right), expected)
    scores[3, 2] = np.nan
    with pytest.raises(NotFinite):
        ranks(scores, right)


def test_purity_is_that_of_the_contingency_table(rng):
    cluster = pytest.importorskip("sklearn.metrics.cluster")
    for _ in range(20):
        clusters, topics = rng.integers(0, 4, 30), rng.integers(0, 3, 30)
        table = cluster.contingency_matrix(topics, clusters)
        assert purity(clusters, topics) == pytest.approx(table.max(axis=0).sum() / 30)


def test_entropies_and_correlations_are_those_of_scipy(rng):
    p = rng.random((3, 4, 5))
    p[..., 2] = 0
    p /= p.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(attention_entropy(p), stats.entropy(p, axis=-1, base=2).mean(-1))
    vectors = rng.standard_normal((6, 3))
    i, j = np.triu_indices(6, 1)
    ranked = [stats.rankdata(x) for x in (j - i, -cosines(vectors, vectors)[i, j])]
    assert in_line(vectors) == pytest.approx(np.corrcoef(*ranked)[0, 1])


def test_naive_bayes_is_that_of_scikit_learn(rng):
    """With words that training has not, and a label that it has not."""
    bayes = pytest.importorskip("sklearn.naive_bayes")
    words = [f"w{k}" for k in range(9)]
    for present in (LABELS, LABELS[:2]):
        training = [(rng.choice(words[:7], rng.integers(1, 6)).tolist(), [], label)
                    for label in rng.choice(len(present), 30)]
        hypotheses = [rng.choice(words, rng.integers(1, 6)).tolist() for _ in range(40)]
        known = sorted({word for text, *_ in training for word in text})
        count = [[[text.count(word) for word in known] for text in texts]
                 for texts in ([text for text, *_ in training], hypotheses)]
        expected = bayes.MultinomialNB().fit(count[0], [label for *_, label in training])
        np.testing.assert_array_equal(naive_bayes(training, hypotheses),
                                      expected.predict(count[1]))


def test_bits_per_character_count_characters_and_not_tokens():
    """Of three tokens with 6 characters, at 3 bits each."""
    tokenizer = BytePairTokenizer.of("abcabc " * 9, 2)
    ids = tokenizer.encode("abcabc")
    batch = Batch(inputs=ids[None], targets=ids[None])
    bits = PRESETS["tiny"].task.bits_per_character(np.log(8), [batch], tokenizer)
    assert len(ids) < 6 and bits == pytest.approx(3 * len(ids) / 6)
