"""The settings of a training run."""

from dataclasses import dataclass

from numformer.config import Config, option
from numformer.training.muon import Muon
from numformer.training.optimizers import SGD, Adam, AdamW
from numformer.training.schedules import SCHEDULES

# Of what a step repeats: one with 10**12 iterations of Muon never ends
MOST = dict(batch_size=2**20, accumulation=2**20, shards=2**12, muon_iterations=100)
OPTIMIZERS = {
    "sgd": lambda model, c: SGD(model, c.momentum),
    "adam": lambda model, c: Adam(model, c.beta1, c.beta2),
    "adamw": lambda model, c: AdamW(model, c.beta1, c.beta2, weight_decay=c.weight_decay),
    "muon": lambda model, c: Muon(model, c.beta1, c.beta2, weight_decay=c.weight_decay,
                                  momentum=c.momentum, ratio=c.muon_ratio,
                                  iterations=c.muon_iterations),
}


@dataclass(frozen=True)
class TrainingConfig(Config):
    """How a model is trained.

    Raises
    ------
    ValueError
        If a number is out of range or a choice unknown.

    Examples
    --------
    >>> TrainingConfig(steps=0)
    Traceback (most recent call last):
    ValueError: TrainingConfig: steps=0 must be a whole number, 1 or more.
    """

    steps: int = option("Steps of the optimizer.")
    # What a step repeats has a bound: one with 10**12 iterations of Muon never ends
    batch_size: int = option(
        "Examples in a batch: blocks of a text, pairs, rows or images.", 12, most=2**20)
    accumulation: int = option(
        "Batches whose gradients make one step together: a larger batch in less memory.", 1,
        most=2**20)
    shards: int = option(
        "Parts of a batch that run in parallel, at most as many as it has examples. They affect "
        "the result; the number of threads does not.", 2, most=2**12)
    optimizer: str = option(
        "How a gradient becomes a step.", "adamw", choices=OPTIMIZERS)
    learning_rate: float = option("Peak of the schedule.", 1e-3, least=0)
    min_learning_rate: float = option("Floor of the schedule.", 1e-4, least=0)
    schedule: str = option(
        "How the learning rate changes after the warm-up.", "cosine", choices=SCHEDULES)
    warmup_steps: int = option(
        "Steps over which the learning rate rises to its peak.", 100, least=0)
    beta1: float = option(
        "Of adam, adamw and muon: decay of the mean of gradients.", 0.9, least=0, below=1)
    beta2: float = option(
        "Of adam, adamw and muon: decay of the mean of their squares.", 0.99, least=0, below=1)
    momentum: float = option(
        "Of sgd and muon: decay of the sum of gradients.", 0.9, least=0, below=1)
    weight_decay: float = option(
        "Of adamw and muon: how far matrices shrink in a step, times the learning rate.", 0.1,
        least=0)
    muon_ratio: float = option(
        "Of muon: the learning rate of hidden matrices, as a multiple of that of the others.",
        10.0, least=0)
    muon_iterations: int = option(
        "Of muon: steps of the iteration that orthogonalizes a matrix.", 5, most=100)
    clip_norm: float = option(
        "Largest norm of the gradient; 0 for no limit.", 1.0, least=0)
    eval_every: int = option(
        "Steps between validations; 0 for one at the end alone.", 500, least=0)
    eval_blocks: int = option("Examples of a validation; 0 for all of them.", 0, least=0)
    save_every: int = option(
        "Steps between checkpoints; 0 for one at the end alone.", 500, least=0)
    patience: int = option(
        "Stop after this many validations in a row without improvement; 0 for never.", 0, least=0)
    seed: int = option("Of the initial weights, the batches and dropout.", 1337, least=0)

    def __post_init__(self):
        super().__post_init__()
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(f"TrainingConfig: min_learning_rate={self.min_learning_rate} must not "
                             f"be above learning_rate={self.learning_rate}; lower it too.")
