"""Run the compiled step: what it knows of a model, its workspaces, long prompts in parts."""

from typing import NamedTuple

import numpy as np

from numformer.kernels.activations import KINDS
from numformer.kernels.decoding.panels import Panels
from numformer.kernels.decoding.table import FINAL, addresses
from numformer.kernels.decoding.token_step import TOKEN_STEP
from numformer.kernels.runtime.shapes import absent
from numformer.kernels.runtime.vectors import MOST_ROWS, PANEL_BYTES
from numformer.kernels.runtime.work_queue import run_serially
from numformer.kernels.runtime.workspace import new_array

__all__ = ["FINAL", "KINDS", "Model", "Panels", "addresses", "page_positions", "page_shape",
           "run_token_step"]
MOST_TOKENS = 256                       # rows of one call, whose numbers stay in the cache
EVERYTHING = np.arange(MOST_TOKENS)


class Model(NamedTuple):
    """What the kernel knows of a decoder. The caller keeps the arrays at the addresses alive.

    Parameters
    ----------
    weights : ndarray of int64, shape (L, 21)
        `addresses` of what NAMES lists.
    final : ndarray of int64, shape (5,)
        `addresses` of the last norm's weight and bias, and of the panels, scale and bias of the
        head.
    epsilons : ndarray, shape (L, 4)
        Of the two norms, of the norms of queries and keys.
    final_epsilon : float
    C, F, V, H, G, D : int
    stored, item_bytes : int
        How the numbers of all panels are stored, and in how many bytes each.
    centred, inside, halves : bool
        Whether the norms subtract the mean; whether epsilon is inside the root; whether rotary
        pairs are (i, i + D/2).
    activation : str
    slopes : ndarray, shape (H,), or None
    """

    weights: np.ndarray
    final: np.ndarray
    epsilons: np.ndarray
    final_epsilon: float
    C: int
    F: int
    V: int
    H: int
    G: int
    D: int
    stored: int
    item_bytes: int
    centred: bool
    inside: bool
    halves: bool
    activation: str
    slopes: np.ndarray | None


def page_positions(dtype):
    """Positions of a page of keys and values."""
    return PANEL_BYTES // dtype.itemsize


def page_shape(L, G, D, dtype):
    """The shape of a page: keys (D, positions) and values (positions, D) for each block and head.

    Examples
    --------
    >>> page_shape(2, 1, 8, np.dtype(np.float32))
    (2, 2, 1, 384)
    """
    return L, 2, G, D * page_positions(dtype)


def run_token_step(x, wanted, texts, pages, model, angles=None, tasks=1, run=run_serially):
    """Run the kernel, with queues and workspaces for its tasks, on some hundred rows at a time.

    Parameters
    ----------
    x : ndarray, shape (N, C)
        The embedded new tokens of all texts, one text after the other.
    wanted : ndarray of int64, shape (M,)
        The rows whose logits are wanted, in ascending order.
    texts : ndarray of int64, shape (B, 3)
        The first row of each text, the row after its last, the position of the first.
    pages : ndarray of int64, shape (B, most pages)
        Addresses of the pages of each text, each of `page_shape`. New positions are written.
    model : Model
    angles : (cosine, sine), optional
        Of all positions, each (positions, D / 2).
    tasks : int
    run : callable

    Returns
    -------
    logits : ndarray, shape (M, V)
    """
    if len(x) <= MOST_TOKENS:
        return _run(x, wanted, texts, pages, model, angles, tasks, run)
    parts = []
    for start in range(0, len(x), MOST_TOKENS):
        stop = min(start + MOST_TOKENS, len(x))
        here = wanted[(wanted >= start) & (wanted < stop)] - start
        some = (texts[:, 0] < stop) & (texts[:, 1] > start)
        begin, end, position = texts[some].T
        first = np.maximum(begin, start)
        rows = np.stack([first - start, np.minimum(end, stop) - start, position + first - begin],
                        axis=1)
        parts.append(_run(x[start:stop], here, rows, pages[some], model, angles, tasks, run))
    return np.concatenate(parts)


def _run(x, wanted, texts, pages, model, angles, tasks, run):
    m, real, rows = model, x.dtype, len(x)
    kernel = TOKEN_STEP[real]
    _, no_slopes, no_angles = absent(real.type)
    cosine, sine = (no_angles, no_angles) if angles is None else angles
    slopes = no_slopes if m.slopes is None else m.slopes
    width, HD = page_positions(real), m.H * m.D
    C, heads, F, V = (-(-n // width) * width for n in (m.C, HD + 2 * m.G * m.D, m.F, m.V))
    h, logits = new_array((rows, C), real), new_array((len(wanted), V), real)
    h[:, :m.C] = x
    workspace = new_array((rows * (m.C + heads + HD + 3 * F), 1), real)
    scores = new_array((tasks, MOST_ROWS + 1, pages.shape[1] * width), real)
    queues = np.zeros((7 * len(m.weights) + 2, tasks + 1), np.int64)
    nothing = np.zeros(width, real)

    def work(task):
        return kernel(h, wanted, texts, pages, m.weights, m.final, m.epsilons,
                      real.type(m.final_epsilon), m.C, m.F, m.V, m.stored, m.item_bytes, m.centred,
                      m.inside, KINDS[m.activation], cosine, sine, m.halves, slopes, m.H, m.G, m.D,
                      nothing.ctypes.data, EVERYTHING[:rows], workspace, logits, queues, task,
                      tasks, scores[task])

    run(work, range(tasks))
    return logits[:, :m.V]
