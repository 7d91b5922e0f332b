"""Compiled versions of some functions of `functional/`: same names, same signatures, plain loops.

The NumPy functions are the reference; a compiled kernel is only faster, and tests hold the two
together. A compiled version registers itself by the name of its function: `runtime.versions`.

A kernel is serial and releases the GIL, so `backend` can run several in parallel. Numba is imported
here and nowhere else: `backend` imports this package when it first needs it. `runtime/` is what
the kernels are built on (compilation, cache, memory, work queue, arithmetic); read it last.
"""

from numformer.kernels.runtime import numba_settings  # noqa: F401  (first: it imports Numba)
