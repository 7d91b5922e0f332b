"""What attention weights are for: even ones, weights by distance, and weights learned from data."""

from numformer.analysis.capture import capture
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trainer_of
from numformer.functional import CAUSAL
from numformer.layers import FixedWeightAttention, MultiHeadAttention
from numformer.recipes.preset import Claim
from numformer.training.evaluation import mean_loss

WIDTH, HIDDEN = 64, 256
STEPS = 500
MODEL = dict(n_layers=2, n_heads=4, d_model=WIDTH, context_length=64, init_std=0.08, bias=False)
TRAINING = dict(learning_rate=4e-3, min_learning_rate=0.0, warmup_steps=20, batch_size=16,
                eval_every=0)
# Without queries and keys, a feed-forward that is wider by C makes up for their 2 C^2 parameters in
# each block. Distances reach the learned weights by rotation
WITHOUT = dict(positions="none", d_hidden=HIDDEN + WIDTH)
KINDS = {"even": dict(WITHOUT, attention_weights="even"),
         "distance": dict(WITHOUT, attention_weights="distance"),
         "learned": dict(positions="rotary", d_hidden=HIDDEN)}
SHOWN = 24                                                            # tokens of the maps


def measure(seed, steps=None):
    """Validation losses of three decoders of one size, and their weights on a held-out text."""
    figures, losses, maps, rows = {}, {}, {}, []
    for kind, options in KINDS.items():
        trainer, _, tokenizer = trainer_of("nanogpt-cpu", seed, steps or STEPS,
                                           model={**MODEL, **options}, training=TRAINING)
        losses[kind] = [trainer.train_step()["loss"] for _ in range(trainer.config.steps)]
        model = trainer.model
        validation = trainer.validation if steps is None else trainer.validation[:1]
        figures[f"loss_{kind}"] = loss = float(mean_loss(model, validation))
        n_parameters = sum(parameter.data.size for parameter in model.parameters())
        rows.append(f"{kind:10} {n_parameters:10,} {loss:10.3f}")
        ids = trainer.validation[0].inputs[:1, :SHOWN]
        with capture(model, (FixedWeightAttention, MultiHeadAttention)) as calls:
            model(ids)
        last = calls[-1]
        maps[kind] = last.layer.attention_weights(last.saved)[0, 0]           # (T, T), of head 1
    tokens = [tokenizer.decode([token]) for token in ids[0]]
    table = "\n".join(["weights    parameters   val loss", *rows])

    def picture():
        from numformer.plots import attention_maps, losses_by_step
        from numformer.plots.axes import panels

        left, right = panels(None, 1, 2, (21, 4.8), width_ratios=(1, 3))[0]
        losses_by_step(losses, left, "Training loss by kind of attention weights")
        return attention_maps(maps, tokens, CAUSAL.dense(len(tokens), len(tokens)), right,
                              "Head 1 of the last block")[0].figure

    return Outcome(figures, picture, table)


ATTENTION_WEIGHTS = Experiment(
    "Why must attention weights come from the data, rather than be even or follow distance?",
    measure, (Claim("loss_distance", beats="loss_even"),
              Claim("loss_learned", beats="loss_distance")))
