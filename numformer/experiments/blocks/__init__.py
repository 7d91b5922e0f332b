"""What the parts of a block are for: skip connections, norms, gates."""

from numformer.experiments.blocks.batch_norm import BATCH_NORM
from numformer.experiments.blocks.recurrent_gradients import RECURRENT_GRADIENTS
from numformer.experiments.blocks.skip_connections import SKIP_CONNECTIONS

EXPERIMENTS = {
    "batch-norm": BATCH_NORM,
    "recurrent-gradients": RECURRENT_GRADIENTS,
    "skip-connections": SKIP_CONNECTIONS,
}
