"""Time, memory, operations and data: what a loss costs."""

from numformer.experiments.costs import length_extrapolation, scaling_law, three_ways

EXPERIMENTS = {
    "length-extrapolation": length_extrapolation.EXPERIMENT,
    "scaling-law": scaling_law.EXPERIMENT,
    "three-ways": three_ways.EXPERIMENT,
}
