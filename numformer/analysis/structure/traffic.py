"""Bytes that attention moves between memory and cache: composed of whole arrays, and in tiles."""

from pathlib import Path
from typing import NamedTuple

from numformer.checks import check_whole
from numformer.functional.attention.masks import EVERYWHERE

KIB, MIB = 2 ** 10, 2 ** 20
# of a core with AVX-512: 32 registers of 64 bytes
REGISTERS = 2 * KIB
TYPICAL = {"L1 cache": 32 * KIB, "L2 cache": MIB}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


class Traffic(NamedTuple):
    """What one head's attention reads from memory and writes to it.

    Parameters
    ----------
    name : str
    moved : dict of str to int
        By array, the bytes that are read and written.
    stored : dict of str to int
        By array, the bytes that are in memory.
    tile : dict of str to int
        By array, the bytes of a tile in the cache; empty without tiles.
    block : (int, int), optional
        Queries and keys of a tile.
    formula : str
        Of the numbers that are moved.
    """

    name: str
    moved: dict
    stored: dict
    tile: dict
    formula: str
    block: tuple = ()


def attention_traffic(T, S, D, tile=None, pattern=EVERYWHERE, itemsize=4):
    r"""The bytes that the forward of one head moves, with whole arrays and in tiles, by formula.

    .. math::

        \text{composed: } 4 T S + 2 (T + S) D, \qquad
        \text{tiles of } I \times J: \; 2 T D + 2 S D \lceil T / I \rceil + 2 T

    Composed of whole arrays, scores and weights are written once and read once. In tiles, they
    never leave the cache: every block of I queries reads all keys and values again. Counted is what
    passes between memory and the cache that holds a tile; a larger cache that holds all keys and
    values saves reading them again. A causal pattern skips keys of tiles, but not of whole
    arrays.

    Parameters
    ----------
    T, S, D : int
        Queries, keys, and the width of a head.
    tile : (int, int), optional
        I and J; those of the compiled kernel by default.
    pattern : AttentionPattern
        Keys to which no query of a block may attend are not read, in tiles.
    itemsize : int
        Bytes of a number.

    Returns
    -------
    composed, tiled : Traffic

    Raises
    ------
    ValueError
        If a size is not a whole number above 0.

    References
    ----------
    Dao et al. (2022), "FlashAttention: Fast and Memory-Efficient Exact Attention with
    IO-Awareness", section 2.2 and theorem 2; the order of the loops is that of Dao (2023),
    "FlashAttention-2".

    Examples
    --------
    >>> composed, tiled = attention_traffic(4096, 4096, 64, tile=(128, 96))
    >>> [round(sum(each.moved.values()) / 2 ** 20) for each in (composed, tiled)]
    [260, 66]
    """
    for name, size in (("T", T), ("S", S), ("D", D), ("itemsize", itemsize)):
        check_whole("attention_traffic", name, size)
    if tile is None:
        from numformer.kernels.attention.tile_sizes import tile_size

        tile = tile_size(T, S, D)
    I, J = tile
    for name, size in (("I", I), ("J", J)):
        check_whole("attention_traffic", name, size)
    q, k, s = (itemsize * size for size in (T * D, S * D, T * S))
    inputs = {"q": q, "k": k, "v": k, "o": q}
    composed = Traffic("composed", {"q": q, "k": k, "s": 2 * s, "p": 2 * s, "v": k, "o": q},
                       {**inputs, "s": s, "p": s}, {}, "4 T S + 2 (T + S) D")
    keys = itemsize * D * _keys_read(T, S, I, pattern)
    numbers = 2 * T * itemsize                        # m and l of each query
    return composed, Traffic(
        "tiled", {"q": q, "k": keys, "v": keys, "o": q, "m, l": numbers},
        {**inputs, "m, l": numbers},
        {name: itemsize * size for name, size in (
            ("q", I * D), ("k", J * D), ("v", J * D), ("s", I * J), ("acc", I * D))},
        "2 T D + 2 S D T/I + 2 T", (I, J))


def memory_levels():
    """The sizes of this machine's registers and caches of one core, from the smallest, in bytes.

    Where the system does not report caches (Linux does), they have typical sizes.

    Returns
    -------
    dict of str to int

    Examples
    --------
    >>> list(memory_levels())[:2]
    ['registers', 'L1 cache']
    """
    found = {}
    for folder in sorted(_CACHES.glob("index*")):
        kind, level, size = ((folder / name).read_text().strip()
                             for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and level in "12" and size.endswith("K"):
            found[f"L{level} cache"] = int(size[:-1]) * KIB
    return {"registers": REGISTERS, **(found if len(found) == 2 else TYPICAL)}


def _keys_read(T, S, I, pattern):
    """Keys that all blocks of I queries read together."""
    first, last = (ends[0] for ends in pattern.intervals(T, S))       # (T,)
    total = 0
    for start in range(0, T, I):
        low, high = first[start:start + I], last[start:start + I]
        if (high > low).any():
            total += high.max() - low[high > low].min()
    return int(total)
