"""The integer hash behind dropout masks: see `numformer.functional.attention_dropout_mask`."""

from numba import uint32

from numformer.kernels.runtime.compile import inlined


@inlined
def mix(x):
    """The 32-bit finalizer "lowbias32" of the reference."""
    x = uint32((x ^ (x >> uint32(16))) * uint32(0x7FEB352D))    # Numba widens to 64 bits: cut back
    x = uint32((x ^ (x >> uint32(15))) * uint32(0x846CA68B))
    return uint32(x ^ (x >> uint32(16)))
