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
SERIES = 1000                                         # of a validation of forecasts, all of them
MOST_PRODUCTS = 10**14                                # of attention in a step: some 10 hours


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
    layers = options.get("n_layers", options.get("encoder_layers", 1))
    width = options.get("d_model", 1)
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
    if "horizon" in options:                          # targets, of a step and of a validation
        targets = options["context_length"] * options["horizon"]
        series = max(training.batch_size * training.accumulation, training.eval_blocks or SERIES)
        _check("the targets of context_length x horizon", series * targets, size)
        tokens, block = examples * options["context_length"], options["context_length"]
    if "image_size" in options and "patch_size" in options:
        block = (options["image_size"] // options["patch_size"]) ** 2
        tokens = examples * block
        _check("a batch of patches", tokens * layers * width if "n_heads" in options else 0,
               2 * size)
    if "n_heads" in options and not options.get("sliding_window") and tokens * block * width * \
            layers > MOST_PRODUCTS:
        raise UsageError(f"the attention of {tokens:.3g} tokens of a step, each to {block:.3g}, "
                         "takes hours; choose a smaller context_length, image_size or batch_size, "
                         "or larger patches.")


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
