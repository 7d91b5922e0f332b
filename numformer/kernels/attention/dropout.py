"""The dropout mask of one tile, from a hash of (seed, b, h, i, j): nothing is stored."""

from numba import uint32

from numformer.kernels.runtime.compile import inlined
from numformer.kernels.runtime.hashing import mix


@inlined
def row_hashes(options, b, h, i0, hashes):
    """The part of the hash that all weights of a query share: see `attention_dropout_mask`."""
    example = mix(uint32(options.seed_high ^ mix(uint32(options.seed_low ^ mix(uint32(b))))))
    head = mix(uint32(example ^ uint32(h)))
    for i in range(len(hashes)):
        hashes[i] = mix(uint32(head ^ uint32(i0 + i)))


@inlined
def drop(x, options, hashes, j0, dropped):
    """dropped = x d, also in place; d is 1 / (1 - rate) for a kept weight and 0 for the others."""
    zero = x.dtype.type(0)
    for j in range(x.shape[0]):
        step = uint32(uint32(j0 + j) * uint32(0x9E3779B9))
        for i in range(x.shape[1]):
            bits = mix(uint32(hashes[i] + step))
            kept = bits >= uint32(options.threshold)
            dropped[j, i] = x[j, i] * (options.keep_scale if kept else zero)
