"""Time, memory, operations and data: what a loss costs."""

from numformer.experiments.costs import length_extrapolation

EXPERIMENTS = {
    "length-extrapolation": length_extrapolation.EXPERIMENT,
}
