"""Pictures with matplotlib: each function takes `ax=` and returns it; none opens a window or writes a file."""

from numformer.plots.alignment import alignment_map
from numformer.plots.attention import attention_map
from numformer.plots.audit import audit_errors
from numformer.plots.comparison import gradients_by_distance, losses_by_tokens
from numformer.plots.growth import growth_of_time
from numformer.plots.training import loss_curve
from numformer.plots.vision import patch_attention, position_similarity

__all__ = [
    "alignment_map", "attention_map", "audit_errors", "gradients_by_distance", "growth_of_time", "loss_curve", "losses_by_tokens",
    "patch_attention", "position_similarity",
]
