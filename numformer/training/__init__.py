"""The training loop, the trainer, optimizers, schedules and checkpoints."""

from numformer.finite import NotFinite
from numformer.training.checkpoint import CheckpointError, save_checkpoint, write_atomically
from numformer.training.clipping import clip_factor, global_norm
from numformer.training.counting_trainer import CountingTrainer
from numformer.training.evaluation import accuracy, mean_loss
from numformer.training.folder_lock import FolderInUse, FolderLock
from numformer.training.load_checkpoint import load_checkpoint, part_of
from numformer.training.loop import train
from numformer.training.muon import Muon
from numformer.training.optimizers import SGD, Adam, AdamW, Optimizer
from numformer.training.run_folder import RunFolder
from numformer.training.snapshots import Snapshots, snapshot_steps
from numformer.training.schedules import SCHEDULES, learning_rate
from numformer.training.trainer import Trainer
from numformer.training.training_config import OPTIMIZERS, TrainingConfig

__all__ = [
    "Adam", "AdamW", "CheckpointError", "CountingTrainer", "FolderInUse", "FolderLock", "Muon",
    "NotFinite", "OPTIMIZERS", "Optimizer", "RunFolder", "SCHEDULES", "SGD", "Snapshots", "Trainer",
    "TrainingConfig", "accuracy", "clip_factor", "global_norm", "learning_rate", "load_checkpoint",
    "mean_loss", "part_of", "save_checkpoint", "snapshot_steps", "train", "write_atomically",
]
