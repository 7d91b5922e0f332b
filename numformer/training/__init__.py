"""Batches, schedules, optimizers, the trainer, checkpoints and the folder of a run."""

from numformer.training.batches import Batch, BlockStream, consecutive_blocks
from numformer.training.checkpoint import CheckpointError, load_checkpoint, save_checkpoint, write_atomically
from numformer.training.muon import Muon
from numformer.training.optimizers import SGD, Adam, AdamW, Optimizer, clip_factor, global_norm
from numformer.training.run_folder import RunFolder, train
from numformer.training.schedules import SCHEDULES, learning_rate
from numformer.training.trainer import NotFinite, Trainer, mean_loss, part_of
from numformer.training.training_config import OPTIMIZERS, TrainingConfig

__all__ = [
    "Adam", "AdamW", "Batch", "BlockStream", "CheckpointError", "Muon", "NotFinite", "OPTIMIZERS", "Optimizer", "RunFolder",
    "SCHEDULES", "SGD", "Trainer", "TrainingConfig", "clip_factor", "consecutive_blocks", "global_norm", "learning_rate",
    "load_checkpoint", "mean_loss", "part_of", "save_checkpoint", "train", "write_atomically",
]
