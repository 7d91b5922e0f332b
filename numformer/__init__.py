"""numformer: the Transformer family in NumPy, every gradient derived by hand."""

from numformer import functional, layers, models
from numformer.backend import get_threads, set_threads, use
from numformer.functional import AttentionPattern
from numformer.parameter import Layer, Parameter
from numformer.verify import check

__version__ = "0.1.0"
__all__ = ["AttentionPattern", "Layer", "Parameter", "check", "functional", "get_threads", "layers", "models", "set_threads",
           "use"]
