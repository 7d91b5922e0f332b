"""Questions of the lecture notes that one trained model does not answer: each compares several
models, or looks into one, returns figures with claims about them, and draws them.

A folder holds the experiments of one subject, a page each, and its ``__init__`` their table.
"""

from numformer.experiments import attention, blocks, costs, in_context, meaning, transfer, vision
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of

EXPERIMENTS = {
    **attention.EXPERIMENTS, **blocks.EXPERIMENTS, **costs.EXPERIMENTS, **in_context.EXPERIMENTS,
    **meaning.EXPERIMENTS, **transfer.EXPERIMENTS, **vision.EXPERIMENTS,
}

__all__ = ["EXPERIMENTS", "Experiment", "Outcome", "trained", "trainer_of"]
