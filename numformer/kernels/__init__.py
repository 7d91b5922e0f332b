"""Compiled twins of some functions of `functional/`: the same names and signatures, plain loops under Numba.

NumPy is the truth; a twin is only faster. `numformer.backend.TWINS` says which page has which.
The kernels are serial and release the interpreter's lock, so that `backend` can run them side by side. Numba is imported here
and nowhere above: `backend` imports this room when it first needs it.
"""
