"""Data parallelism: the shards of a batch in one process, and over the ranks of MPI."""

from numformer.training.parallel.shards import Shards
from numformer.training.parallel.tree import fold, roots

__all__ = ["Shards", "fold", "roots"]
