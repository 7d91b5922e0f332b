"""What skip connections do for the gradients and the training of a deep stack of blocks."""

import numpy as np

from numformer.analysis import gradient_norm_by_block
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trainer_of
from numformer.layers import FeedForward, LayerNorm, ResidualBranch, TransformerBlock
from numformer.layers.linear import head_loss, head_loss_backward
from numformer.recipes.preset import Claim

DEPTHS = (4, 8, 16, 24)
STACKS = {"skips": dict(norms=False), "neither": dict(norms=False, skip_connections=False),
          "skips_and_norms": {}, "norms": dict(skip_connections=False)}
NAMES = {"skips": "skips, no norms", "neither": "no skips, no norms",
         "skips_and_norms": "skips and norms", "norms": "no skips, norms"}
TRAINED = 16                                                          # blocks
STEPS = 150
WIDTH = 32
MODEL = dict(n_heads=2, d_model=WIDTH, context_length=32, feedforward="relu", init_std=WIDTH ** -.5)
TRAINING = dict(learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=20, batch_size=12,
                eval_every=0)


def stack_trainer(kind, depth, seed, steps):
    """A trainer of a decoder with initial weights of standard deviation 1 / sqrt(inputs).

    A sum of 2 L branches grows, so with skips their outputs are divided by sqrt(2 L), as in GPT-2.
    """
    trainer, *_ = trainer_of("nanogpt-cpu", seed, steps, model=dict(MODEL, n_layers=depth),
                             training=TRAINING, recipe=STACKS[kind])
    rng, scale = np.random.default_rng([seed, depth]), 1.0
    if STACKS[kind].get("skip_connections", True):
        scale = (2 * depth) ** -0.5
    for block in trainer.model.blocks:
        for linear, factor in ((block.attention.value, 1), (block.attention.output, scale),
                               (block.feedforward.hidden, 1), (block.feedforward.output, scale)):
            weight = linear.weight.data
            weight[:] = rng.standard_normal(weight.shape) * factor * len(weight) ** -0.5
    return trainer


def gradients_at_blocks(model, batch):
    """The norm of the gradient of the loss with respect to the input of each block, (L,).

    That of the parameters would not show it: it is the product of this gradient, which shrinks
    towards the first block, and of the activations, which shrink towards the last.
    """
    model, (ids, targets) = model.replica(), batch
    x, (_, saved_blocks, saved_norm) = model.features(ids)
    _, saved_loss = head_loss(model.head, x, targets)
    dx = model.norm.backward(head_loss_backward(model.head, 1.0, saved_loss), saved_norm)
    norms = []
    for block, saved_block in zip(reversed(model.blocks), reversed(saved_blocks)):
        dx = block.backward(dx, saved_block)
        norms.append(float(np.sqrt((dx.astype(np.float64) ** 2).sum())))
    return np.array(norms[::-1])


def change_by_a_zero_branch(order, seed):
    """The largest |dx - dy| of a block whose branch adds zero: 0 if the block is the identity."""
    rng = np.random.default_rng(seed)
    feedforward = FeedForward(8, 32, "gelu", rng, dtype=np.float64)
    feedforward.output.weight.data[:] = 0
    branch = ResidualBranch(LayerNorm(8, dtype=np.float64), feedforward, order)
    x, dy = rng.standard_normal((2, 2, 5, 8))
    block = TransformerBlock(feedforward=branch)
    return float(np.abs(block.backward(dy, block.forward(x)[1]) - dy).max())


def measure(seed, steps=None):
    """Gradients of the first and last block by depth, and losses of four stacks."""
    ratios, flows, losses, figures, rows = {}, {}, {}, {}, []
    for kind, name in NAMES.items():
        ratios[name] = {}
        for depth in DEPTHS:
            trainer = stack_trainer(kind, depth, seed, steps or STEPS)
            batch = trainer.validation[0]
            flow = gradients_at_blocks(trainer.model, batch)
            ratios[name][depth] = flow[0] / flow[-1]
            if depth == DEPTHS[-1]:
                flows[name] = flow
                of_weights = gradient_norm_by_block(trainer.model, batch)["blocks"]
                figures[f"first_weights_{kind}"] = float(of_weights[0])
            if depth == TRAINED:
                losses[name] = [trainer.train_step()["loss"] for _ in range(trainer.config.steps)]
        figures[f"log10_ratio_{kind}"] = float(np.log10(ratios[name][DEPTHS[-1]]))
        last = losses[name][-max(1, len(losses[name]) // 10):]
        figures[f"loss_{kind}"] = loss = float(np.mean(last))
        rows.append(f"{name:18}" + "".join(f"{ratio:10.2g}" for ratio in ratios[name].values())
                    + f"{loss:10.3f}")
    for order in ("pre", "post"):
        figures[f"change_{order}"] = change_by_a_zero_branch(order, seed)
    table = "\n".join([
        f"{'first / last':18}" + "".join(f"{f'{depth} blocks':>10}" for depth in DEPTHS)
        + "      loss", *rows,
        "largest |dx - dy| of a block whose branch adds zero: "
        f"pre-norm {figures['change_pre']:.2g}, post-norm {figures['change_post']:.2g}"])

    def picture():
        from numformer.plots import gradient_flow, gradient_ratio_by_depth, losses_by_step
        from numformer.plots.axes import panels

        one, two, three = panels(None, 1, 3, (16, 4.6))[0]
        gradient_ratio_by_depth(ratios, one, "Gradient at the first block, relative to the last")
        gradient_flow(flows, two, f"Gradient at the input of each of {DEPTHS[-1]} blocks")
        return losses_by_step(losses, three, f"Training loss of {TRAINED} blocks").figure

    return Outcome(figures, picture, table)


SKIP_CONNECTIONS = Experiment(
    "What do skip connections do for gradients and training, and why do norms hide it?", measure,
    (Claim("log10_ratio_neither", -2, beats="log10_ratio_skips"),
     Claim("loss_skips", beats="loss_neither"), Claim("loss_skips_and_norms", beats="loss_norms"),
     Claim("change_pre", 0, beats="change_post")))
