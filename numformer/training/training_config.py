"""The settings of a training run."""

from dataclasses import dataclass

from numformer.checks import check_choice, check_number, check_whole
from numformer.config import Config
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

    Parameters
    ----------
    steps : int
        Steps of the optimizer.
    batch_size : int
        Examples in a batch: blocks of a text, pairs, rows or images.
    accumulation : int
        Batches whose gradients make one step together: a larger batch in less memory.
    shards : int
        Parts of a batch that run in parallel, at most as many as it has examples. They affect the
        result; the number of threads does not.
    optimizer : "adamw", "adam", "muon" or "sgd"
        How a gradient becomes a step.
    learning_rate, min_learning_rate : float
        Peak and floor of the schedule.
    schedule : "cosine", "linear", "inverse_sqrt" or "constant"
        How the learning rate changes after the warm-up.
    warmup_steps : int
        Steps over which the learning rate rises to its peak.
    beta1, beta2, momentum, weight_decay : float
        Of the optimizer, where it has them.
    muon_ratio : float
        Of Muon: the learning rate of hidden matrices, as a multiple of that of the others.
    muon_iterations : int
        Of Muon: steps of the iteration that orthogonalizes a matrix, at most 100.
    clip_norm : float
        Largest norm of the gradient; 0 for no limit.
    eval_every : int
        Steps between validations; 0 for one at the end alone.
    eval_blocks : int
        Examples of a validation; 0 for all of them.
    save_every : int
        Steps between checkpoints; 0 for one at the end alone.
    patience : int
        Stop after this many validations in a row without improvement; 0 for never.
    seed : int
        Of the initial weights, the batches and dropout.

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

    steps: int
    batch_size: int = 12
    accumulation: int = 1
    shards: int = 2
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-4
    schedule: str = "cosine"
    warmup_steps: int = 100
    beta1: float = 0.9
    beta2: float = 0.99
    momentum: float = 0.9
    weight_decay: float = 0.1
    muon_ratio: float = 10.0
    muon_iterations: int = 5
    clip_norm: float = 1.0
    eval_every: int = 500
    eval_blocks: int = 0
    save_every: int = 500
    patience: int = 0
    seed: int = 1337

    def __post_init__(self):
        owner = "TrainingConfig"
        check_whole(owner, "steps", self.steps)
        for name, most in MOST.items():
            check_whole(owner, name, getattr(self, name), most=most)
        for name in ("warmup_steps", "eval_every", "eval_blocks", "save_every", "patience",
                     "seed"):
            check_whole(owner, name, getattr(self, name), least=0)
        for name in ("beta1", "beta2", "momentum"):
            check_number(owner, name, getattr(self, name), least=0, below=1)
        for name in ("learning_rate", "min_learning_rate", "weight_decay", "muon_ratio",
                     "clip_norm"):
            check_number(owner, name, getattr(self, name), least=0)
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(f"{owner}: min_learning_rate={self.min_learning_rate} must not be "
                             f"above learning_rate={self.learning_rate}; lower it too.")
        check_choice(owner, "optimizer", self.optimizer, OPTIMIZERS)
        check_choice(owner, "schedule", self.schedule, SCHEDULES)
