"""Arrays of other libraries, by what they can do: none is imported."""

import numpy as np


def as_array(x):
    """An array of another library as one of NumPy; else x itself.

    It is one if it has `__array__`, or, as those of CuPy, which are on a GPU, a `get` that copies
    it. bfloat16, which NumPy does not have, becomes float32.
    """
    if isinstance(x, (np.ndarray, np.generic)):
        return _usual(x) if x.dtype.kind == "V" else x
    if hasattr(x, "detach"):                          # a tensor, with a graph or on a GPU
        x = x.detach().cpu()
        return np.asarray(x.float() if str(getattr(x, "dtype", "")) == "torch.bfloat16" else x)
    if callable(getattr(x, "get", None)) and hasattr(x, "dtype") and hasattr(x, "shape") \
            and (not hasattr(type(x), "__array__") or hasattr(x, "__cuda_array_interface__")):
        return _usual(x.get())
    return _usual(np.asarray(x)) if hasattr(type(x), "__array__") else x


def _usual(x):
    """An array in a dtype that NumPy computes with."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x
