"""Time, memory, operations and data: what a loss costs."""

from numformer.experiments.costs import (
    efficient_attention, length_extrapolation, operations_to_loss, scaling_law, three_ways)

EXPERIMENTS = {
    "efficient-attention": efficient_attention.EXPERIMENT,
    "length-extrapolation": length_extrapolation.EXPERIMENT,
    "operations-to-loss": operations_to_loss.EXPERIMENT,
    "scaling-law": scaling_law.EXPERIMENT,
    "three-ways": three_ways.EXPERIMENT,
}
