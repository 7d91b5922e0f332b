"""The training loop, the trainer, optimizers and schedules."""

from numformer.finite import NotFinite
from numformer.training.clipping import clip_factor, global_norm
from numformer.training.counting_trainer import CountingTrainer
from numformer.training.evaluation import accuracy, mean_loss
from numformer.training.loop import train
from numformer.training.muon import Muon
from numformer.training.optimizer import Optimizer
from numformer.training.optimizers import SGD, Adam, AdamW
from numformer.training.schedules import SCHEDULES, learning_rate
from numformer.training.trainer import Trainer
from numformer.training.training_config import OPTIMIZERS, TrainingConfig

__all__ = [
    "Adam", "AdamW", "CountingTrainer", "Muon", "NotFinite", "OPTIMIZERS", "Optimizer", "SCHEDULES",
    "SGD", "Trainer", "TrainingConfig", "accuracy", "clip_factor", "global_norm", "learning_rate",
    "mean_loss", "train",
]
