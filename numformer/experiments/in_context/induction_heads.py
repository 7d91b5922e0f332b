"""Induction heads: when they form, what they attend to, and what depends on them."""

from itertools import combinations

import numpy as np

from numformer.analysis import ablate_heads, attention_by_layer, head_scores
from numformer.data import recall_batch, recall_examples, recall_ids, recall_text
from numformer.data.corpora.recall import EXAMPLE
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.recipes.preset import more
from numformer.recipes.text.recall import RECALL

EVERY = 250                                           # steps
CONTEXTS, EXAMPLES = 64, 16                           # that scores are measured on
ABLATED = 1                                           # heads
SHOWN = 7                                             # examples in the map


def measure(seed, steps=None):
    """Train `recall` with scores of every head; ablate those with the highest, and others."""
    trainer, task, tokenizer = trainer_of("recall", seed, steps)
    held_out = task.load(None)
    ids, _ = recall_batch(*recall_examples(CONTEXTS, EXAMPLES, np.random.default_rng(5)))
    queries = np.zeros(ids.shape, bool)
    queries[:, ::EXAMPLE] = True                                      # at keys
    history = []                                                      # (step, recall, scores)

    def recall(model):
        return RECALL.measure(model, tokenizer, held_out)["recall"]

    def observe(trainer):
        history.append((trainer.step, recall(trainer.model),
                        *head_scores(trainer.model, ids, queries)))

    model = trained(trainer, EVERY, observe).model
    _, whole, induction, previous = history[-1]
    found, others = by_score(induction)
    with ablate_heads(model, found):
        without = recall(model)
    controls = []
    for pair in others:
        with ablate_heads(model, pair):
            controls.append(recall(model))
    figures = {
        "recall": whole, "without_induction_heads": without,
        "without_other_heads": float(np.mean(controls)),
        "without_other_heads_at_least": float(np.min(controls)),
        "induction_score": float(induction.max()),
        "induction_score_before": float(history[0][2].max()),
        "induction_score_of_layer_1": float(induction[0].max()),
        "previous_token_score": float(previous.max()),
    }
    layer, head = found[0]
    context = recall_examples(1, SHOWN, np.random.default_rng([seed, 4]), keys=3)
    shown = recall_ids(*context)
    weights = list(attention_by_layer(model, shown).values())[layer][0, head]
    text = recall_text(*(each[0] for each in context))
    return Outcome(figures, lambda: _picture(history, figures, weights, text, (layer, head)),
                   _table(induction, previous))


def by_score(induction):
    """The heads with the highest scores, and all sets of as many others in their layer.

    Parameters
    ----------
    induction : ndarray, shape (layers, H)
    """
    layer = int(induction.max(axis=1).argmax())
    order = [(layer, int(head)) for head in (-induction[layer]).argsort()]
    return order[:ABLATED], list(combinations(order[ABLATED:], ABLATED))


def _picture(history, figures, weights, text, head):
    from numformer.plots import induction_panels

    return induction_panels(history, figures, weights, list(text), head)


def _table(induction, previous):
    lines = [f"{'head':>10} {'induction':>10} {'previous token':>15}"]
    for (layer, head), score in np.ndenumerate(induction):
        lines.append(f"{f'{layer + 1}.{head + 1}':>10} {score:10.3f} {previous[layer, head]:15.3f}")
    return "\n".join(lines)


INDUCTION_HEADS = Experiment(
    "Which heads find the value of an earlier key, when do they form, and what is lost without?",
    measure, (
        more("induction_score", beats="induction_score_of_layer_1"),
        more("induction_score", 0.5, beats="induction_score_before"),
        more("without_other_heads", beats="without_induction_heads"),
        more("recall", 0.95, beats="without_induction_heads"),
    ))
