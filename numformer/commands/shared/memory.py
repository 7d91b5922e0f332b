"""Refuse a run that cannot fit into the memory of this machine, before anything is built."""

import os

import numpy as np

from numformer.commands import UsageError
from numformer.commands.shared.process import launched_rank
from numformer.files import GIB
from numformer.models import KINDS
from numformer.parameter import Layer

MOST_LAYERS = 4096                                    # of a model, or experts of a layer
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
    for name in ("n_layers", "text_layers", "n_experts"):
        if (options.get(name) or 0) > MOST_LAYERS:
            raise UsageError(f"{name}={options[name]} must be at most {MOST_LAYERS}.")
    layers, width = options.get("n_layers", 1), options.get("d_model", 1)
    hidden, size = options.get("d_hidden") or width, np.dtype(options.get("dtype", "f4")).itemsize
    # Matrices of each layer, and the embedding; building even the names takes memory.
    values = layers * width * hidden + options.get("vocab_size", 1) * width
    _check("the model", values, COPIES * size)
    if issubclass(KINDS[kind][0], Layer):
        try:
            model = KINDS[kind][0](config, None)
        except (ValueError, OverflowError, MemoryError) as error:
            raise UsageError(f"the model is too large: {error}") from None
        values = sum(parameter.data.size for parameter in model.parameters())
        _check("the model", values, (COPIES + shards - 1) * size)
    tokens = training.batch_size * block * shards // training.shards
    _check("a batch", tokens * layers * width, 2 * size)
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
