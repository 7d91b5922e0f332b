"""Experiments on meaning: what they measure, on inputs whose answer is known."""

from types import SimpleNamespace

import numpy as np
import pytest

from numformer.data import tale, tales
from numformer.experiments.meaning.answer_retrieval import (
    Questions, inverse_frequencies, ranks_in_groups, tf_idf)
from numformer.experiments.meaning.clusters import clusters_of, mean_purity, purity
from numformer.experiments.meaning.head_patterns import PATTERNS, scores_of, targets_of
from numformer.experiments.meaning.mentions import (
    exchanged_pairs, nearest_accuracy, pronouns_of, random_accuracy)
from numformer.experiments.meaning.pronouns import (
    attended_is_right, best_head, moves_with_the_pronoun)
from numformer.experiments.meaning.resolution_probe import (
    NEAR, Examples, examples_of, fit_probe, loss_and_gradient, probe_accuracy)
from numformer.experiments.meaning.sentence_objectives import Pairs, measured, words_of
from numformer.experiments.meaning.sentence_training import ranks, recall
from numformer.experiments.meaning.word_neighbours import in_line, same_category
from numformer.experiments.meaning.word_senses import accuracy_by_word, occurrences
from numformer.experiments.meaning.world_bert import FIRST, WorldBert
from numformer.recipes.world.world_bert import WorldMaskedTask


def test_equal_vectors_give_the_majority_and_separate_ones_every_sense():
    words = np.array(["bank"] * 6)
    senses = np.array(["bank.river"] * 4 + ["bank.money"] * 2)
    assert accuracy_by_word(np.ones((6, 3)), words, senses).mean() == 4 / 6
    apart = np.where((senses == "bank.river")[:, None], [1.0, 0.1], [0.1, 1.0])
    assert accuracy_by_word(apart, words, senses).mean() == 1


def test_occurrences_are_those_of_the_labels():
    told = tales(40)
    tale_of, token, words, senses = occurrences(told)
    assert len(words) > 10
    for n, t, word, sense in zip(tale_of, token, words, senses):
        assert told[n].words[t] == word and told[n].senses[t] == f"{word}.{sense}"


def test_candidates_are_before_the_pronoun_and_of_its_type():
    told = tales(60, held_out=True)
    found = pronouns_of(told)
    assert len(found) > 60
    for each in found:
        words = told[each.tale].words
        assert words[each.token] == each.word and (each.candidates < each.token).all()
        referent = told[each.tale].referents[each.token]
        assert referent in each.candidates[each.right]
        assert {words[t] for t in each.candidates[each.right]} == {words[referent]}
    assert 0 < random_accuracy(found) < 1 and 0 < nearest_accuracy(found) < 1


def test_a_head_that_attends_to_referents_is_found():
    told = tales(20)
    found, T = pronouns_of(told), 144
    weights = np.zeros((20, 1, 2, T, T), np.float32)
    for each in found:
        weights[each.tale, 0, 0, each.token + FIRST, each.candidates[each.right] + FIRST] = 1
        weights[each.tale, 0, 1, each.token + FIRST, each.candidates[-1] + FIRST] = 1
    right = attended_is_right(weights, found)
    assert right[0, 0].all() and right[0, 1].mean() == nearest_accuracy(found)


def test_texts_of_a_pair_differ_in_the_pronoun_alone_and_share_no_right_answer():
    told = tales(30, held_out=True)
    texts, pairs = exchanged_pairs(told)
    assert len(texts) == len(pairs) > 20 and [each.tale for each in pairs] == [*range(len(pairs))]
    for own, other in zip(pairs[0::2], pairs[1::2]):
        first, second = texts[own.tale], texts[other.tale]
        differ = [t for t in range(len(first)) if first[t] != second[t]]
        assert differ == [own.token] == [other.token]
        assert {first[own.token], second[own.token]} == {"he", "she"}
        assert first in {each.words for each in told} and second not in {
            each.words for each in told}
        assert (own.right != other.right).all() and own.right.any() and other.right.any()
        assert (own.candidates < own.token).all()


def test_a_head_that_follows_the_pronoun_moves_and_one_that_does_not_see_it_never_does(rng):
    texts, pairs = exchanged_pairs(tales(20))
    T = 2 + max(map(len, texts))
    weights = np.zeros((len(texts), 1, 3, T, T))
    blind = rng.random((len(texts) // 2, T))
    for each in pairs:
        row = weights[each.tale, 0, :, each.token + FIRST]
        row[0] = blind[each.tale // 2]                                # the same for both
        row[1, each.candidates + FIRST] = np.where(each.right, 0.6, 0.4)
        row[2, each.candidates + FIRST] = np.where(each.right, 0.4, 0.6)      # to the others
    moves = moves_with_the_pronoun(weights, pairs)
    assert moves.shape == (1, 3, len(pairs) // 2)
    assert not moves[0, 0].any() and moves[0, 1].all() and not moves[0, 2].any()
    (layer, head), of_best = best_head(moves)
    assert (layer, head) == (0, 1) and of_best.all() and len(of_best) == len(pairs) // 4


def test_the_best_head_is_measured_on_the_other_half():
    right = np.zeros((2, 2, 6), bool)
    right[1, 0, [0, 2]], right[0, 1, [1, 3, 5]] = True, True          # of even, of odd examples
    head, of_best = best_head(right)
    assert head == (1, 0) and of_best.tolist() == [False] * 3


def test_the_gradient_of_the_probe(rng):
    N, K, C = 5, 3, 4
    real = np.arange(K) < np.array([3, 2, 3, 2, 3])[:, None]
    right = real & (np.arange(K) == 1)
    examples = Examples(rng.standard_normal((N, C)), rng.standard_normal((N, K, C)),
                        rng.integers(0, NEAR + 1, (N, K)), real, right)
    A, b, step = rng.standard_normal((C, C)), rng.standard_normal(NEAR + 1), 1e-6
    _, dA, db = loss_and_gradient(examples, A, b)
    for x, dx in ((A, dA), (b, db)):
        for index in np.ndindex(x.shape):
            before, ends = x[index], []
            for sign in (1, -1):
                x[index] = before + sign * step
                ends.append(loss_and_gradient(examples, A, b)[0])
            x[index] = before
            assert abs((ends[0] - ends[1]) / (2 * step) - dx[index]) < 1e-6


def test_the_probe_finds_what_vectors_show_and_else_the_nearest(rng):
    told = tales(60)
    found = pronouns_of(told)
    states = np.zeros((60, 144, 6), np.float32)
    nothing = examples_of(states, found)
    states[:, :, 0] = 1
    for each in found:
        states[each.tale, each.candidates[each.right] + FIRST, 1] += 1
    shown = examples_of(states, found)
    assert probe_accuracy(shown, *fit_probe(shown)) > 0.9
    blind = probe_accuracy(nothing, *fit_probe(nothing))
    assert abs(blind - nearest_accuracy(found)) < 0.1


def test_patterns_of_heads_that_have_them():
    told, T = tale(3), None
    found = pronouns_of([told])
    T = len(told.words) + 2
    targets = targets_of(told, found, T)
    weights = np.full((1, 2, T, T), 1 / T)
    weights[0, 0] = np.roll(np.eye(T), -1, axis=1)                    # to the token before
    scores, baselines = scores_of([weights], [targets], [T])
    previous, subject = PATTERNS.index("previous"), PATTERNS.index("agreement")
    assert scores[0, 0, previous] == 1 and abs(baselines[0, 0, previous] - 1 / T) < 1e-12
    np.testing.assert_allclose(scores[0, 1], baselines[0, 1], rtol=0.2)
    assert targets["agreement"].sum() == sum(0 <= s < v - 1 for v, s in enumerate(told.heads))
    assert scores[0, 0, subject] == 0


def test_rare_words_find_the_sentence_with_them():
    told = tales(20)
    data = Questions(told)
    answers = [question.answer for each in told for question in each.questions]
    assert all(set(words) <= set(data.sentences[k]) for k, words in zip(data.answer, answers))
    inverse = inverse_frequencies(data.sentences)
    assert inverse["the"] < inverse["bucket"]
    vectors = tf_idf(data.sentences, inverse)
    own = ranks_in_groups(vectors[data.answer], vectors, data)
    assert recall(own, 5) > 0.99, "a sentence is nearest to itself"


def test_ranks_count_ties_half():
    assert ranks(np.ones((1, 5)), np.array([2])).tolist() == [2.0]


def test_purity_by_hand():
    assert purity(np.array([0, 0, 1, 1]), np.array([3, 3, 1, 1])) == 1
    assert purity(np.array([2, 2, 2, 2]), np.array([0, 0, 0, 1])) == 0.75, "empty clusters"
    assert purity(np.arange(4), np.zeros(4, int)) == 1, "clusters of one example"


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_clusters_do_not_depend_on_the_size_of_vectors(size, rng):
    vectors = np.repeat(np.eye(2), 3, axis=0) + 0.1 * rng.standard_normal((6, 2))
    found = clusters_of(vectors * size, 2, seed=0)
    assert len(set(found[:3])) == len(set(found[3:])) == 1 and found[0] != found[3]


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_vector_without_a_direction_is_named(bad):
    vectors = np.array([[1.0, 2.0], [0.0, bad], [3.0, 1.0]])
    with pytest.raises(ValueError, match="clusters_of: vector 1 is 0, or holds NaN or Inf"):
        clusters_of(vectors, 2, seed=0)


def test_directions_apart_are_clusters_and_random_ones_are_not(rng):
    topics = np.repeat(np.arange(4), 10)
    apart = np.eye(4)[topics] + 0.02 * rng.standard_normal((40, 4))
    scaled = apart * rng.uniform(0.1, 10, (40, 1))                    # directions alone matter
    assert len(set(clusters_of(scaled, 4, 0))) > 1
    assert max(purity(clusters_of(scaled, 4, seed), topics) for seed in range(5)) == 1
    assert mean_purity(scaled, topics) > 0.85 > 0.6 > mean_purity(
        rng.standard_normal((40, 4)), topics)
    assert np.array_equal(clusters_of(scaled, 4, 3), clusters_of(scaled, 4, 3))


@pytest.mark.slow
def test_vectors_that_name_the_tale_find_and_group_its_sentences(rng):
    told = tales(12)
    task, tokenizer = WorldMaskedTask(), WorldMaskedTask().tokenizer(None)
    model = SimpleNamespace(config=SimpleNamespace(context_length=160))
    pairs = Pairs(WorldBert(model, task, tokenizer), told)
    assert [tokenizer.decode([n]) for n in words_of(pairs.hypotheses)[0]] == list(
        told[0].claims[0].hypothesis)
    assert [told[0].plot == each.plot for each in told] == (pairs.plot[0] == pairs.plot).tolist()

    def found(by_tale):
        """For vectors that depend on the tale alone, but for a little noise."""
        vectors = {len(rows): by_tale[tale] + 0.01 * rng.standard_normal((len(rows), 12))
                   for rows, tale in ((pairs.premises.ids, np.arange(12)),
                                      (pairs.hypotheses.ids, pairs.tale))}
        return measured(lambda rows: vectors[len(rows.ids)], pairs)
    of_tale, of_plot = found(np.eye(12)), found(np.eye(12)[pairs.plot])
    assert of_tale.recall == 1 and of_tale.purity > 0.7 and of_tale.plot_purity < 0.8
    assert of_plot.recall < 0.5 and of_plot.purity < 0.7 and of_plot.plot_purity > 0.8


def test_neighbours_by_category_and_numbers_in_line(rng):
    categories = np.repeat(["a", "b"], 6)
    vectors = np.where((categories == "a")[:, None], [1.0, 0.0], [0.0, 1.0])
    assert same_category(vectors, categories).mean() == 1
    angles = np.linspace(0, 1, 9)
    assert in_line(np.stack([np.cos(angles), np.sin(angles)], axis=1)) > 0.99
