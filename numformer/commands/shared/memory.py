"""Refuse a run that cannot fit into the memory of this machine, before anything is built."""

import os

import numpy as np

from numformer.analysis.counting import model_of_shapes
from numformer.commands import UsageError
from numformer.commands.shared.process import launched_rank
from numformer.files import GIB
from numformer.models import KINDS
from numformer.parameter import Layer
from numformer.shapes_only import TooLarge

COPIES = 2                                            # of parameters: at least data and gradient


def check_memory(kind, config, training, block):
    """UsageError if a model or a batch certainly needs more memory than there is.

    Lower bounds: a run that passes may still be too large. On the ranks of MPI, each runs one shard
    at least.

    Parameters
    ----------
    kind : str
        A name in `numformer.models.KINDS`.
    config : Config
    training : TrainingConfig
    block : int
        Tokens of an example, at least.
    """
    options = config.as_dict()
    shards = training.shards if launched_rank() is None else 1        # of this process
    layers, width = options.get("n_layers", 1), options.get("d_model", 1)
    size = np.dtype(options.get("dtype", "f4")).itemsize
    if issubclass(KINDS[kind][0], Layer):
        memory, bytes_of_each = physical_memory(), (COPIES + shards - 1) * size
        most = {} if memory is None else {"numbers": memory // bytes_of_each}
        try:
            model_of_shapes(config, **most)
        except ValueError as error:
            machine = "" if memory is None or not isinstance(error, TooLarge) else (
                f" In training a number takes at least {bytes_of_each} bytes, but this machine has "
                f"{memory / GIB:.3g} GiB.")
            raise UsageError(f"{error}{machine}") from None
    examples = training.batch_size * shards // training.shards
    tokens = examples * block
    _check("a batch", max(tokens * layers * width,
                          examples * options.get("image_size", 0) ** 2), 2 * size)
    _check("a step", tokens * training.accumulation, 8)


def physical_memory():
    """Bytes of memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _check(what, values, bytes_of_each):
    memory = physical_memory()
    if memory is not None and values * bytes_of_each > memory:
        raise UsageError(f"{what} has {values:.3g} numbers, which take at least "
                         f"{values * bytes_of_each / GIB:.3g} GiB in training, but this machine "
                         f"has {memory / GIB:.3g} GiB; choose smaller sizes.")
