"""The memory hierarchy: where attention keeps its arrays, and what it moves between levels."""

from numformer.plots.axes import colours, faint, new_axes, sequential, styled

ROWS, COLUMNS = 1.0, (3.05, 7.25)                     # height of a level, middles of the columns
WIDE, LEFT, RIGHT = 3.7, -1.15, 9.3                   # of a box; ends of the picture
WIDEST = 1.1                                          # of the arrow of the most bytes


@styled
def memory_hierarchy(traffics, levels, ax=None, title="Attention in the memory hierarchy"):
    """Levels of memory, what each holds, and arrows as wide as the bytes that pass between them.

    A column for each way to compute attention: above the registers and caches of a core with the
    arrays of a tile, below the memory with whole arrays.

    Parameters
    ----------
    traffics : sequence of two Traffic
        From `numformer.analysis.attention_traffic`.
    levels : dict of str to int
        Bytes of the levels above the memory, from the smallest, such as those of
        `numformer.analysis.memory_levels`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are not two ways, or no levels.

    References
    ----------
    After Dao et al. (2022), "FlashAttention", figure 1, which has the hierarchy of a GPU.

    Examples
    --------
    >>> from numformer.analysis import attention_traffic
    >>> ax = memory_hierarchy(attention_traffic(64, 64, 8, tile=(16, 16)), {"L2 cache": 2 ** 20})
    >>> [text.get_text() for text in ax.texts if "moved" in text.get_text()]
    ['72 KiB moved', '20 KiB moved']
    """
    if len(traffics) != 2 or not levels:
        raise ValueError(f"memory_hierarchy: {len(traffics)} ways and {len(levels)} levels came; "
                         "give two, from attention_traffic, and one level or more.")
    ax = new_axes((8, 6.6)) if ax is None else ax
    names, n = [*levels, "memory"], len(levels) + 1
    gap = 1.25                                        # above the memory, for the arrows
    tops = [ROWS * 1.12 * (k - n + 1) - gap for k in range(n - 1)] + [0.35]
    for name, top in zip(names, tops):
        size = f"\n{binary_size(levels[name])}" if name in levels else ""
        ax.text(LEFT + 0.1, top + ROWS / 2, name + size, ha="left", va="center",
                fontweight="bold")
    most = max(sum(each.moved.values()) for each in traffics)
    for column, traffic in zip(COLUMNS, traffics):
        ax.text(column, tops[0] - 0.42, TITLES[traffic.name], ha="center", va="center",
                fontweight="bold")
        held = _held(traffic, len(levels))
        for k, (top, text) in enumerate(zip(tops, held)):
            tall = ROWS if k < n - 1 else 1.75
            ax.add_patch(_box(ax, column, top, tall, strong=k == n - 1))
            ax.text(column, top + tall / 2, text, ha="center", va="center", linespacing=1.25)
        _draw_arrow(ax, column, tops[-2] + ROWS, tops[-1], traffic, most)
    ax.set(xlim=(LEFT, RIGHT), ylim=(2.2, tops[0] - 0.75), title=title)
    ax.set_axis_off()
    return ax


TITLES = {"composed": "composed of whole arrays", "tiled": "in tiles"}


def _held(traffic, levels):
    """What each level holds, from the registers to the memory."""
    tile = traffic.tile
    above = ["sums of a product", *["parts of the operands"] * (levels - 2)][:levels - 1]
    above.append(f"tile of {traffic.block[0]} x {traffic.block[1]}: {', '.join(tile)}\n"
                 f"{binary_size(sum(tile.values()))}" if tile
                 else "parts of one array\nafter another")
    large = {name: size for name, size in traffic.stored.items() if name in ("s", "p")}
    small = {name: size for name, size in traffic.stored.items() if name not in large}
    lines = [f"{', '.join(group)}: {binary_size(sum(group.values()))}"
             for group in (small, large) if group]
    return [*above, "\n".join([*lines, "" if large else "no s, no p"]).strip()]


def _box(ax, column, top, tall, strong):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((column - WIDE / 2, top), WIDE, tall,
                          boxstyle="round,pad=0,rounding_size=0.08", linewidth=1.2,
                          facecolor=sequential(ax)(0.16 if strong else 0.06), edgecolor=faint(ax))


def _draw_arrow(ax, column, top, bottom, traffic, most):
    """A double arrow between memory and cache, as wide as the bytes, with their number."""
    from matplotlib.patches import Polygon

    moved = sum(traffic.moved.values())
    half, head = max(WIDEST * moved / most / 2, 0.03), 0.24
    x, top, bottom = column - WIDE / 2 + 0.85, top + 0.08, bottom - 0.08
    points = [(-half, top + head), (-half - 0.14, top + head), (0, top), (half + 0.14, top + head),
              (half, top + head), (half, bottom - head), (half + 0.14, bottom - head), (0, bottom),
              (-half - 0.14, bottom - head), (-half, bottom - head)]
    ax.add_patch(Polygon([(x + dx, y) for dx, y in points], facecolor=colours(ax)[1],
                         edgecolor="none"))
    ax.text(x + 0.85, (top + bottom) / 2 - 0.2, f"{binary_size(moved)} moved", va="center",
            fontweight="bold", color=colours(ax)[1])
    ax.text(x + 0.85, (top + bottom) / 2 + 0.22, traffic.formula, va="center")


def binary_size(n):
    """A number of bytes with a unit of 1024.

    Examples
    --------
    >>> binary_size(512), binary_size(2048), binary_size(68.5 * 2 ** 20), binary_size(2 ** 30)
    ('512 bytes', '2 KiB', '68 MiB', '1 GiB')
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.3g} {unit}" if n < 10 else f"{n:.0f} {unit}"
        n /= 1024
