"""How many queries and keys a tile of the attention kernel has; without Numba, for `analysis`."""


def tile_size(T, S, D):
    """Queries and keys of a tile: chosen with `numformer bench attention` to fit the L2 cache."""
    if max(T, S) <= 128:
        return 64, 64
    return (128, 96) if D <= 64 else (64, 96) if D <= 128 else (64, 48)
