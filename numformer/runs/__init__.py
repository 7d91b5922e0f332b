"""Runs: what a training leaves on the disk, safe from crashes, and read with care."""

from numformer.runs.checkpoint import CheckpointError, save_checkpoint
from numformer.runs.facts import check_arrays
from numformer.runs.folder_lock import FolderInUse, FolderLock
from numformer.runs.load_checkpoint import load_checkpoint
from numformer.runs.load_run import RunError, load_run
from numformer.runs.metrics import read_metrics
from numformer.runs.run_folder import RunFolder
from numformer.runs.snapshots import Snapshots, snapshot_steps

__all__ = [
    "CheckpointError", "FolderInUse", "FolderLock", "RunError", "RunFolder", "Snapshots",
    "check_arrays", "load_checkpoint", "load_run", "read_metrics", "save_checkpoint",
    "snapshot_steps",
]
