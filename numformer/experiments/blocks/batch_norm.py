"""BatchNorm in a Transformer, next to LayerNorm: what it does in training and in evaluation."""

import numpy as np

from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trainer_of
from numformer.functional import softmax
from numformer.layers import BatchNorm, LayerNorm
from numformer.models.transformer import running_statistics
from numformer.recipes.preset import Claim, more
from numformer.training.evaluation import mean_loss

NORMS = {"layer_norm": "LayerNorm", "batch_norm": "BatchNorm"}
STEPS = {2: 800, 8: 300, 32: 150}                                     # by batch size
LEARNING_RATES = {2: 1e-3, 8: 2e-3, 32: 3e-3}
GATHERED = 480                                                        # texts of the statistics
# epsilon of both norms alike; one shard, so that statistics are those of the whole batch
MODEL = dict(norm_first=True, n_layers=2, n_heads=4, d_model=64, context_length=64, epsilon=1e-5,
             dropout=0.0)
TRAINING = dict(optimizer="adamw", min_learning_rate=0.0, warmup_steps=20,
                shards=1, eval_every=0)
SIZES = 3, 4, 5                                                       # B, T, C of the Jacobians


def coupling(norm, seed):
    """The norm of the Jacobian of each output vector with respect to each input, (B T, B T)."""
    B, T, C = SIZES
    _, saved = norm.forward(np.random.default_rng(seed).standard_normal(SIZES))
    squares = np.zeros((B * T, B * T))
    for b, t, c in np.ndindex(SIZES):
        dy = np.zeros(SIZES)
        dy[b, t, c] = 1
        squares[b * T + t] += (norm.backward(dy, saved) ** 2).sum(axis=-1).ravel()
    return np.sqrt(squares)


def between_texts(matrix):
    """The largest entry of a coupling that is not within a text."""
    B, T, _ = SIZES
    texts = np.repeat(np.arange(B), T)
    return float(matrix[texts[:, None] != texts].max())


def trained_classifier(norm, batch_size, seed, steps):
    """(trainer, task, tokenizer) after training; BatchNorm's statistics gathered, but not set."""
    trainer, task, tokenizer = trainer_of(
        "topics", seed, steps or STEPS[batch_size], model=dict(MODEL, norm=norm),
        training=dict(TRAINING, batch_size=batch_size, learning_rate=LEARNING_RATES[batch_size]))
    for _ in range(trainer.config.steps):
        trainer.train_step()
    return trainer, task, tokenizer


def effect_of_neighbours(model, examples, batch_size, seed):
    """How much the probability of a text's topic depends on the other texts of its batch.

    The mean absolute difference between two random divisions of the texts into batches.
    """
    found, rng = [], np.random.default_rng(seed)
    for order in (rng.permutation(len(examples.labels)) for _ in "12"):
        logits = [model(examples.rows.ids[part], examples.rows.lengths[part])
                  for part in np.split(order, range(batch_size, len(order), batch_size))]
        probabilities, _ = softmax(np.concatenate(logits))            # (N, classes)
        chosen = np.empty(len(order))
        chosen[order] = probabilities[np.arange(len(order)), examples.labels[order]]
        found.append(chosen)
    return float(np.abs(found[0] - found[1]).mean())


def measure(seed, steps=None):
    """Losses and accuracies of both norms by batch size, and their Jacobians."""
    figures, losses, accuracies, neighbours, rows = {}, {}, {}, {}, []
    for batch_size in STEPS:
        for norm, name in NORMS.items():
            trainer, task, tokenizer = trained_classifier(norm, batch_size, seed, steps)
            model, key = trainer.model, f"{norm}_{batch_size}"
            n_batches = GATHERED // batch_size if steps is None else 2
            batches = [trainer.stream.batch(step) for step in range(n_batches)]
            training = float(mean_loss(model, batches))               # in batches as in training
            examples = task.examples(tokenizer, model.config, held_out=True)
            effect = effect_of_neighbours(model, examples, batch_size, seed)
            if norm == "batch_norm":
                model.backbone.statistics = running_statistics(model.backbone, [
                    dict(ids=batch.ids, lengths=batch.lengths) for batch in batches])
            same = float(mean_loss(model, batches))                   # the same texts
            held_out = float(mean_loss(model, trainer.validation))
            accuracy = task.measure(model, tokenizer, None)["accuracy"]
            figures |= {f"training_loss_{key}": training, f"evaluation_loss_{key}": same,
                        f"neighbours_{key}": effect, f"held_out_loss_{key}": held_out,
                        f"accuracy_{key}": accuracy}
            losses.setdefault(f"{name}, as in training", {})[batch_size] = training
            losses.setdefault(f"{name}, in evaluation", {})[batch_size] = same
            neighbours.setdefault(name, {})[batch_size] = effect
            accuracies.setdefault(name, {})[batch_size] = accuracy
            rows.append(f"{batch_size:5}  {name:10} {training:14.3f} {same:15.3f} {held_out:14.3f} "
                        f"{accuracy:9.3f} {effect:11.4f}")
    couplings = {"LayerNorm": coupling(LayerNorm(SIZES[2], dtype=np.float64), seed),
                 "BatchNorm": coupling(BatchNorm(SIZES[2], dtype=np.float64), seed)}
    figures |= {f"coupling_{norm}": between_texts(couplings[name]) for norm, name in NORMS.items()}
    table = "\n".join(["batch  norm        training loss evaluation loss  held-out loss  accuracy  "
                       "neighbours", *rows])

    def picture():
        from numformer.plots import norm_comparison, results_by_batch_size
        from numformer.plots.axes import panels

        left, right = panels(None, 1, 2, (15, 8.4), width_ratios=(2, 1))[0]
        results_by_batch_size({"loss, nats": losses, "held-out accuracy": accuracies,
                               "effect of the other texts": neighbours}, right)
        return norm_comparison(couplings, SIZES, left)

    return Outcome(figures, picture, table)


BATCH_NORM = Experiment(
    "Why do Transformers have LayerNorm, and what happens with BatchNorm in its place?", measure,
    (more("accuracy_layer_norm_2", beats="accuracy_batch_norm_2"),
     Claim("neighbours_layer_norm_2", 1e-5, beats="neighbours_batch_norm_2"),
     Claim("coupling_layer_norm", 0, beats="coupling_batch_norm")))
