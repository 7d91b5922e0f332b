"""Where the nodes of a graph are drawn: in ranks, with few crossings and short edges."""

from typing import NamedTuple

SWEEPS = 6


class Place(NamedTuple):
    """The rank of a node, and the middle of its width."""

    rank: int
    x: float


def ranked(widths, edges, gap=0.22, thin=0.1):
    """Place the nodes of a graph without cycles.

    A node is one rank below the lowest node that has an edge to it. Edges over several ranks pass
    between the nodes of the ranks in between.

    Parameters
    ----------
    widths : list of float
        Of the nodes.
    edges : list of (int, int)
        From one node to another, each to a node that comes later in the list.
    gap : float
        Between two nodes of a rank.
    thin : float
        The room of an edge between them.

    Returns
    -------
    nodes : list of Place
    lines : dict of (int, int) to list of Place
        For each edge over several ranks, where it passes the ranks in between.

    References
    ----------
    Sugiyama, Tagawa, Toda (1981), "Methods for Visual Understanding of Hierarchical System
    Structures", for ranks, and for the order by the mean of the neighbours.

    Examples
    --------
    >>> nodes, lines = ranked([1.0, 1.0, 1.0], [(0, 1), (1, 2), (0, 2)])
    >>> [node.rank for node in nodes], len(lines[0, 2])
    ([0, 1, 2], 1)
    """
    rank = [0] * len(widths)
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        rank[end] = max(rank[end], rank[start] + 1)
    sizes, links, passed = list(widths), [], {}
    for edge in dict.fromkeys(edges):
        before, passed[edge] = edge[0], []
        for between in range(rank[edge[0]] + 1, rank[edge[1]]):
            sizes.append(thin)
            rank.append(between)
            links.append((before, len(sizes) - 1))
            before = len(sizes) - 1
            passed[edge].append(before)
        links.append((before, edge[1]))
    rows = [[node for node, each in enumerate(rank) if each == level]
            for level in range(max(rank) + 1)]
    above, below = ({node: [] for node in range(len(sizes))} for _ in range(2))
    for start, end in links:
        above[end].append(start)
        below[start].append(end)
    x = {}
    for row in rows:
        _pack(row, {node: float(k) for k, node in enumerate(row)}, sizes, gap, x)
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for row in rows if down else rows[::-1]:
            wanted = {node: sum(x[each] for each in near[node]) / len(near[node])
                      if near[node] else x[node] for node in row}
            order = sorted(row, key=wanted.get) if sweep < 2 * SWEEPS - 4 else row
            row[:] = order
            _pack(row, wanted, sizes, gap, x)
    x = _without_strips(x, sizes, gap)
    nodes = [Place(rank[node], x[node]) for node in range(len(widths))]
    return nodes, {edge: [Place(rank[node], x[node]) for node in between]
                   for edge, between in passed.items() if between}


def _without_strips(x, sizes, gap):
    """Places from 0 on, without vertical strips wider than a gap that hold nothing."""
    end, shift, moved = None, 0.0, {}
    for node in sorted(x, key=lambda each: x[each] - sizes[each] / 2):
        start = x[node] - sizes[node] / 2
        if end is None or start > end + gap:
            shift += start if end is None else start - end - gap
        end = max(start if end is None else end, start + sizes[node])
        moved[node] = x[node] - shift
    return moved


def _pack(row, wanted, sizes, gap, x):
    """Give the nodes of a row places near those wanted, in their order and without overlaps."""
    def apart(left, right):
        return (sizes[left] + sizes[right]) / 2 + gap

    left, right = {}, {}
    for k, node in enumerate(row):
        left[node] = wanted[node] if k == 0 else max(
            wanted[node], left[row[k - 1]] + apart(row[k - 1], node))
    for k, node in reversed(list(enumerate(row))):
        right[node] = wanted[node] if k == len(row) - 1 else min(
            wanted[node], right[row[k + 1]] - apart(node, row[k + 1]))
    for node in row:
        x[node] = (left[node] + right[node]) / 2
    for before, node in zip(row, row[1:]):            # the mean of two orders keeps the distances
        x[node] = max(x[node], x[before] + apart(before, node))
