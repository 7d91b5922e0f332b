"""Which version of a function runs (NumPy reference or compiled kernel), and on which threads.

Every function of `numformer.functional` that has a backward is here, too, in the version that can
run: see `dispatch.function`.
"""

from numformer.backend.cores import available_cores
from numformer.backend.processes import can_fork, has_processes
from numformer.backend.pool import (
    blas_libraries, can_start_threads, get_threads, one_blas_thread, run_by_shares,
    run_side_by_side, run_with_helpers, set_threads, threads)
from numformer.backend.dispatch import (
    ACTIVATIONS, adam_step, add, blas_choice, blas_label, compiled_attention, compiled_token_step,
    compiled_versions, function, is_compiled, linear_backward_accumulate,
    scaled_dot_product_attention, scaled_dot_product_attention_backward, sums_of_squares,
    tiled_attention, tiled_attention_backward, token_step, use, using, version_in_use,
    why_no_kernels)

__all__ = [
    "ACTIVATIONS", "adam_step", "add", "available_cores", "blas_choice", "blas_label",
    "blas_libraries", "can_fork", "can_start_threads", "compiled_attention",
    "compiled_token_step", "compiled_versions", "function", "get_threads", "has_processes",
    "is_compiled", "linear_backward_accumulate", "one_blas_thread", "run_by_shares",
    "run_side_by_side", "run_with_helpers", "scaled_dot_product_attention",
    "scaled_dot_product_attention_backward", "set_threads", "sums_of_squares", "threads",
    "tiled_attention", "tiled_attention_backward", "token_step", "use", "using",
    "version_in_use", "why_no_kernels",
]


def __getattr__(name):
    """A function of `numformer.functional` in the version that can run."""
    if name.startswith("_"):
        raise AttributeError(name)
    globals()[name] = function(name)
    return globals()[name]
