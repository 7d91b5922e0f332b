"""What the parts of a block are for: skip connections, norms, gates."""

from numformer.experiments.blocks.recurrent_gradients import RECURRENT_GRADIENTS

EXPERIMENTS = {
    "recurrent-gradients": RECURRENT_GRADIENTS,
}
