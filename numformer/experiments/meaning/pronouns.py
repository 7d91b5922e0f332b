"""What pronouns refer to: the heads whose attention finds it, a probe of the vectors, and what
attention does when "she" and "he" are exchanged."""

from functools import partial

import numpy as np

from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.mentions import (
    exchanged_pairs, nearest_accuracy, pronouns_of, random_accuracy)
from numformer.experiments.meaning.resolution_probe import (
    examples_of, fit_probe, probe_accuracy)
from numformer.experiments.meaning.world_bert import (
    FIRST, attention_of, halves, hidden_states, pretrained, tales_of, untrained)
from numformer.recipes.preset import more

TALES, PROBE_TALES = 240, 500


def attended_is_right(weights, pronouns):
    """Whether each head attends to the referent more than to all other candidates.

    Parameters
    ----------
    weights : ndarray, shape (N, layers, H, T, T)
    pronouns : list of Pronoun

    Returns
    -------
    ndarray of bool, shape (layers, H, pronouns)
    """
    right = []
    for each in pronouns:
        given = weights[each.tale][:, :, each.token + FIRST, each.candidates + FIRST]
        right.append(each.right[given.argmax(axis=-1)])               # (layers, H)
    return np.stack(right, axis=-1)


def moves_with_the_pronoun(weights, pronouns):
    """Whether people of a gender have more of a head's weight on people when the pronoun is theirs.

    Parameters
    ----------
    weights : ndarray, shape (N, layers, H, T, T)
    pronouns : list of Pronoun
        Of `exchanged_pairs`.

    Returns
    -------
    ndarray of bool, shape (layers, H, pairs)
        A head that does not depend on the pronoun never does; one that changes at random does in
        half of the pairs.
    """
    moves = []
    for own, other in zip(pronouns[0::2], pronouns[1::2]):
        people = own.candidates + FIRST
        with_own, with_other = (weights[each.tale][:, :, each.token + FIRST, people]
                                for each in (own, other))             # (layers, H, people)
        moves.append(with_own[..., own.right].sum(axis=-1) / with_own.sum(axis=-1)
                     > with_other[..., own.right].sum(axis=-1) / with_other.sum(axis=-1))
    return np.stack(moves, axis=-1)


def best_head(right):
    """The head that is right most often in one half, and whether it is in each of the other half.

    Parameters
    ----------
    right : ndarray of bool, shape (layers, H, N)

    Returns
    -------
    (int, int)
        Layer and head.
    ndarray of bool, shape (N // 2,)
    """
    chosen, measured = halves(right.shape[-1])
    by_head = right[..., chosen].mean(axis=-1)                        # (layers, H)
    layer, head = np.unravel_index(by_head.argmax(), by_head.shape)
    return (layer, head), right[layer, head, measured]


def measure(seed, steps=None):
    """The best head is chosen on one half of the pronouns and measured on the other."""
    bert, first, told = pretrained(seed, steps), untrained(seed), tales_of(TALES)
    rows = bert.rows([each.words for each in told])
    pronouns, weights = pronouns_of(told), attention_of(bert.model, rows)
    right = attended_is_right(weights, pronouns)                      # (layers, H, pronouns)
    _, measured = halves(len(pronouns))
    (layer, head), of_best = best_head(right)
    of_half = [each for each, use in zip(pronouns, measured) if use]
    of_untrained = attended_is_right(attention_of(first.model, rows), pronouns)
    figures = {"best_head": of_best.mean(), "nearest": nearest_accuracy(of_half),
               "best_head_untrained": best_head(of_untrained)[1].mean(),
               "random": random_accuracy(of_half)}
    words = np.array([each.word for each in pronouns])
    lines = [f"the best head: layer {layer + 1}, head {head + 1}"]
    for word in sorted(set(words)):
        own = (words == word) & measured
        if own.any():
            nearest = nearest_accuracy([p for p, use in zip(pronouns, own) if use])
            found = right[layer, head, own].mean()
            lines.append(f"{word}: {own.sum()} pronouns, best head {found:.2f}, "
                         f"nearest {nearest:.2f}")
    accuracy = _probes(bert, told, pronouns)
    figures |= {"probe": accuracy[-1], "probe_of_embedding": accuracy[0],
                "probe_untrained": max(_probes(first, told, pronouns)),
                "nearest_of_all": nearest_accuracy(pronouns),
                **{f"probe_of_layer_{n}": value for n, value in enumerate(accuracy) if n}}
    texts, pairs = exchanged_pairs(told)
    rows = bert.rows(texts)
    of_pairs = attention_of(bert.model, rows)
    moving, moved = best_head(moves_with_the_pronoun(of_pairs, pairs))
    _, moved_untrained = best_head(
        moves_with_the_pronoun(attention_of(first.model, rows), pairs))
    figures |= {"moves": moved.mean(), "moves_untrained": moved_untrained.mean()}
    lines.append(f"{len(pairs) // 2} pairs with \"she\" and \"he\" exchanged; the head that moves "
                 f"most: layer {moving[0] + 1}, head {moving[1] + 1}")
    pictured = []
    for is_thing in (False, True):
        example = _example(*zip(*((each, found) for each, found in zip(pronouns, right[layer, head])
                                  if (each.word == "it") == is_thing)), weights[:, layer, head])
        pictured.append((f"layer {layer + 1}, head {head + 1}; underlined: what it means",
                         told[example.tale].words, example,
                         weights[example.tale, layer, head, example.token + FIRST, FIRST:]))
    for each in _pair(pairs, of_pairs[:, *moving]):
        on_people = np.zeros(len(texts[each.tale]))
        on_people[each.candidates] = of_pairs[
            each.tale, *moving, each.token + FIRST, each.candidates + FIRST]
        pictured.append((f"layer {moving[0] + 1}, head {moving[1] + 1}, weight on people; it moves "
                         f"so\nin {moved.mean():.2f} of all pairs, in {moved_untrained.mean():.2f} "
                         "before training",
                         texts[each.tale], each, on_people))
    return Outcome({name: float(value) for name, value in figures.items()},
                   partial(_drawn, pictured), "\n".join(lines))


def _probes(bert, told, pronouns):
    """The accuracy of probes of the embedding and of each layer; they train on other tales."""
    training = tales_of(PROBE_TALES, held_out=False)
    learned_from = pronouns_of(training)
    training_states, states = (
        hidden_states(bert.model, bert.rows([each.words for each in tales]))
        for tales in (training, told))
    accuracy = []
    for seen, measured in zip(training_states, states):
        probe = fit_probe(examples_of(seen, learned_from))
        accuracy.append(probe_accuracy(examples_of(measured, pronouns), *probe))
    return accuracy


def _example(pronouns, right, weights):
    """The pronoun that shows most: not what is nearest, with most of the weight."""
    def interest(pair):
        each, found = pair
        given = weights[each.tale, each.token + FIRST, each.candidates[each.right] + FIRST]
        return bool(found), not each.right[-1], float(given.max())
    return max(zip(pronouns, right), key=interest)[0]


def _pair(pairs, weights):
    """The pronouns of the pair in which the weight on people moves most, "she" first."""
    def moved(pair):
        own = [weights[each.tale, each.token + FIRST, each.candidates[each.right] + FIRST].sum()
               for each in pair]
        rivals = [weights[each.tale, each.token + FIRST, each.candidates[~each.right] + FIRST].sum()
                  for each in pair]
        return min(own[0] - rivals[1], own[1] - rivals[0])
    chosen = max(zip(pairs[0::2], pairs[1::2]), key=moved)
    return sorted(chosen, key=lambda each: each.word != "she")


def _drawn(pictured):
    from numformer.plots.axes import new_axes, panels
    from numformer.plots.meaning import attention_on_words

    axes = panels(new_axes((8, 13)), len(pictured), 1, (8, 13))[:, 0]
    for ax, (name, words, each, weights) in zip(axes, pictured):
        attention_on_words(words, weights[:len(words)], each.token, each.candidates[each.right],
                           f"\"{each.word}\" (framed): {name}", ax)
    return axes[0].figure


PRONOUNS_EXPERIMENT = Experiment(
    "Do heads attend from a pronoun to what it refers to, and do the vectors tell?", measure,
    (more("best_head", beats="best_head_untrained"), more("best_head", beats="nearest"),
     more("probe", beats="probe_untrained"), more("probe", beats="probe_of_embedding"),
     more("moves", beats="moves_untrained")))
