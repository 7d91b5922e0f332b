"""Pictures with matplotlib: each function takes `ax=` and returns it, or the figure of several; none opens a window or writes a file.
(Frames and films are figures of their own.)

One number a cell is cividis, brighter for more; where zero has a meaning, blue lies below it and gold above. Curves differ by line and
marker, too. ``with dark():`` makes pictures for dark screens.
"""

from numformer.plots.alignment import alignment_map
from numformer.plots.attention import attention_grid, attention_map
from numformer.plots.audit import audit_errors
from numformer.plots.axes import dark
from numformer.plots.comparison import gradients_by_distance, losses_by_tokens
from numformer.plots.costs import account_bars, attention_costs
from numformer.plots.growth import growth_of_time
from numformer.plots.heads import head_statistics
from numformer.plots.inside import activation_histograms, contribution_bars, dead_unit_bars, lens_map, residual_norms
from numformer.plots.oracle import step_error_curve
from numformer.plots.positions import position_biases, position_vectors, similarity_by_distance
from numformer.plots.query import query_detail
from numformer.plots.rotary import rotary_clocks, rotary_proof
from numformer.plots.statistics import attention_distance, attention_entropy, attention_rollout
from numformer.plots.tiles import tile_animation, tile_frame, tile_frames, tile_order
from numformer.plots.training import gradient_flow, gradient_norm_curve, learning_rate_curve, loss_curve, update_ratio_curve
from numformer.plots.vision import patch_attention, position_similarity

__all__ = [
    "account_bars", "activation_histograms", "alignment_map", "attention_costs", "attention_distance", "attention_entropy",
    "attention_grid", "attention_map", "attention_rollout", "audit_errors", "contribution_bars", "dark", "dead_unit_bars",
    "gradient_flow", "gradient_norm_curve", "gradients_by_distance", "growth_of_time", "head_statistics", "learning_rate_curve",
    "lens_map", "loss_curve", "losses_by_tokens", "patch_attention", "position_biases", "position_similarity", "position_vectors",
    "query_detail", "residual_norms", "rotary_clocks", "rotary_proof", "similarity_by_distance", "step_error_curve", "tile_animation",
    "tile_frame", "tile_frames", "tile_order", "update_ratio_curve",
]
