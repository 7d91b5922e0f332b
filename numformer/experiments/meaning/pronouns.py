"""What pronouns refer to: the heads whose attention finds it, and a probe of the vectors."""

from functools import partial

import numpy as np

from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.mentions import (
    nearest_accuracy, pronouns_of, random_accuracy)
from numformer.experiments.meaning.resolution_probe import (
    examples_of, fit_probe, probe_accuracy)
from numformer.experiments.meaning.world_bert import (
    FIRST, attention_of, halves, hidden_states, pretrained, tales_of)
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


def measure(seed, steps=None):
    """The best head is chosen on one half of the pronouns and measured on the other."""
    bert, told = pretrained(seed, steps), tales_of(TALES)
    rows = bert.rows([each.words for each in told])
    pronouns, weights = pronouns_of(told), attention_of(bert.model, rows)
    right = attended_is_right(weights, pronouns)                      # (layers, H, pronouns)
    chosen, measured = halves(len(pronouns))
    by_head = right[..., chosen].mean(axis=-1)                        # (layers, H)
    layer, head = np.unravel_index(by_head.argmax(), by_head.shape)
    of_half = [each for each, use in zip(pronouns, measured) if use]
    figures = {"best_head": right[layer, head, measured].mean(),
               "nearest": nearest_accuracy(of_half), "random": random_accuracy(of_half)}
    words = np.array([each.word for each in pronouns])
    lines = [f"the best head: layer {layer + 1}, head {head + 1}"]
    for word in sorted(set(words)):
        own = (words == word) & measured
        if own.any():
            nearest = nearest_accuracy([p for p, use in zip(pronouns, own) if use])
            found = right[layer, head, own].mean()
            lines.append(f"{word}: {own.sum()} pronouns, best head {found:.2f}, "
                         f"nearest {nearest:.2f}")
    figures |= _probes(bert, told, rows, pronouns)
    example = _example(pronouns, right[layer, head], weights[:, layer, head])
    picture = partial(_drawn, told[example.tale].words, weights[
        example.tale, layer, head, example.token + FIRST, FIRST:], example, layer, head)
    return Outcome({name: float(value) for name, value in figures.items()}, picture,
                   "\n".join(lines))


def _probes(bert, told, rows, pronouns):
    """The accuracy of probes on the embedding and on the last layer; they train on other tales."""
    training = tales_of(PROBE_TALES, held_out=False)
    training_rows = bert.rows([each.words for each in training])
    training_states = hidden_states(bert.model, training_rows)
    states, learned_from = hidden_states(bert.model, rows), pronouns_of(training)
    accuracy = []
    for layer in range(len(states)):
        probe = fit_probe(examples_of(training_states[layer], learned_from))
        accuracy.append(probe_accuracy(examples_of(states[layer], pronouns), *probe))
    return {"probe_of_embedding": accuracy[0], "probe": accuracy[-1],
            "nearest_of_all": nearest_accuracy(pronouns),
            **{f"probe_of_layer_{n}": value for n, value in enumerate(accuracy) if n}}


def _example(pronouns, right, weights):
    """The pronoun that shows most: a person, not the nearest, with most of the weight."""
    def interest(pair):
        each, found = pair
        given = weights[each.tale, each.token + FIRST, each.candidates[each.right] + FIRST]
        return bool(found), not each.right[-1], each.word != "it", float(given.max())
    return max(zip(pronouns, right), key=interest)[0]


def _drawn(words, weights, example, layer, head):
    from numformer.plots.meaning import attention_on_words

    referent = example.candidates[example.right]
    return attention_on_words(
        words, weights[:len(words)], example.token, referent,
        f"Attention of \"{example.word}\" (framed) in layer {layer + 1}, head {head + 1}; "
        "mentions of its referent are underlined")


PRONOUNS_EXPERIMENT = Experiment(
    "Do heads attend from a pronoun to what it refers to, and do the vectors tell?", measure,
    (more("best_head", beats="random"), more("best_head", beats="nearest"),
     more("probe", beats="nearest_of_all"), more("probe", beats="probe_of_embedding")))
