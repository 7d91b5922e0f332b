"""numformer: the Transformer family in NumPy, every gradient derived by hand.

`functional` holds functions and their backwards, `layers` classes that own parameters, `models`
whole architectures. `check` tests a gradient of your own; `use` chooses between NumPy, the
reference, and the compiled kernels.
"""

from numformer import functional, layers, models
from numformer.backend import get_threads, set_threads, use
from numformer.functional import AttentionPattern
from numformer.parameter import Layer, Parameter
from numformer.teaching import check

__version__ = "0.2.0"
__all__ = [
    "AttentionPattern", "Layer", "Parameter", "check", "functional", "get_threads", "layers",
    "models", "set_threads", "use",
]
