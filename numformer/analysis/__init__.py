"""Inside models: captured intermediates, logit lens, costs, gradient reach, attention."""

from numformer.analysis.architecture import Architecture, architecture
from numformer.analysis.attention_gradients import attention_gradients
from numformer.analysis.attention_statistics import (
    attention_distance, attention_entropy, attention_rollout)
from numformer.analysis.capture import (
    attention_by_layer, capture, dead_units, hidden_activations, residual_stream)
from numformer.analysis.costs import model_costs
from numformer.analysis.counting import count, parameter_shapes
from numformer.analysis.gradient_reach import gradient_norm_by_block, gradient_reach
from numformer.analysis.logit_lens import logit_contributions, logit_lens

__all__ = [
    "Architecture", "architecture", "attention_by_layer", "attention_distance",
    "attention_entropy", "attention_gradients", "attention_rollout", "capture", "count",
    "dead_units", "gradient_norm_by_block", "gradient_reach", "hidden_activations", "logit_contributions", "logit_lens", "model_costs",
    "parameter_shapes", "residual_stream",
]
