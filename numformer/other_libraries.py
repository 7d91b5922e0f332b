"""Arrays of other libraries, by what they can do: none is imported."""

import numpy as np


def as_array(x):
    """An array of another library, which has `__array__`, as one of NumPy; else x itself."""
    if not hasattr(type(x), "__array__") or isinstance(x, (np.ndarray, np.generic)):
        return x
    x = x.detach().cpu() if hasattr(x, "detach") else x      # a tensor, with a graph or on a GPU
    return np.asarray(x.float() if str(getattr(x, "dtype", "")) == "torch.bfloat16" else x)
