"""Inside models: captured intermediates, logit lens, costs, gradient reach, attention."""

from numformer.analysis.attention_gradients import attention_gradients
from numformer.analysis.attention_masks import attention_mask_of
from numformer.analysis.attention_statistics import (
    attention_distance, attention_entropy, attention_rollout, distinctive_heads)
from numformer.analysis.attention_steps import attention_steps
from numformer.analysis.average_precision import average_precision, mean_average_precision
from numformer.analysis.capture import (
    attention_by_layer, capture, dead_units, hidden_activations, residual_stream)
from numformer.analysis.costs import model_costs
from numformer.analysis.counting import count, parameter_shapes
from numformer.analysis.fits.power_law import power_law
from numformer.analysis.fits.scaling_law import ScalingLaw, fit_scaling_law
from numformer.analysis.gradient_reach import gradient_norm_by_block, gradient_reach
from numformer.analysis.heads.patterns import attention_patterns, pattern_targets
from numformer.analysis.induction import (
    ablate_heads, head_scores, induction_scores, previous_token_scores)
from numformer.analysis.landscape.directions import (
    filter_normalized_direction, path_directions)
from numformer.analysis.landscape.surface import loss_surface
from numformer.analysis.logit_lens import logit_contributions, logit_lens
from numformer.analysis.lstm_gates import lstm_gates
from numformer.analysis.parallel.communication import (
    all_reduce_seconds, bytes_of_step, step_seconds)
from numformer.analysis.parallel.pipeline import bubble_share, most_held, pipeline_schedule
from numformer.analysis.predictions import next_token_distribution, token_losses
from numformer.analysis.structure.architecture import architecture
from numformer.analysis.structure.computation import Computation, computation
from numformer.analysis.structure.model_sizes import model_sizes
from numformer.analysis.structure.traffic import attention_traffic, memory_levels
from numformer.description import Architecture
from numformer.analysis.rouge import longest_common_subsequence, rouge_l

__all__ = [
    "Architecture", "Computation", "ScalingLaw", "ablate_heads", "all_reduce_seconds",
    "architecture", "attention_by_layer", "attention_distance", "attention_entropy",
    "attention_gradients", "attention_mask_of", "attention_patterns", "attention_rollout",
    "attention_steps", "attention_traffic", "average_precision", "bubble_share", "bytes_of_step",
    "capture", "computation", "count", "dead_units", "distinctive_heads",
    "filter_normalized_direction", "fit_scaling_law", "gradient_norm_by_block", "gradient_reach",
    "head_scores", "hidden_activations", "induction_scores", "logit_contributions", "logit_lens",
    "longest_common_subsequence", "loss_surface", "lstm_gates", "mean_average_precision",
    "memory_levels", "model_costs", "model_sizes", "most_held", "next_token_distribution",
    "parameter_shapes", "path_directions", "pattern_targets", "pipeline_schedule", "power_law",
    "previous_token_scores", "residual_stream", "rouge_l", "step_seconds", "token_losses",
]
