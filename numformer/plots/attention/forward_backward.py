"""Attention and its gradient in one picture: code above the numbers that it computes."""

import inspect
import re
import textwrap

import numpy as np

from numformer.checks import check_array
from numformer.functional.attention.core import attention, attention_backward
from numformer.functional.softmax import softmax_backward
from numformer.plots.axes import (
    colours, in_slides, is_dark, panels, sequential, signed_colours, styled)
from numformer.plots.tokens import label_ticks

STEP = 1e-30                                          # of the complex step: too small to change o
FORMULA = r"$o = \mathrm{softmax}\left(q\, k^\top / \sqrt{D}\right) v$"


@styled
def forward_and_backward(q, k, v, do, mask=None, tokens=None, ax=None, name="one head"):
    r"""The code of attention and of its backward, and below each what it computes for one head.

    Left: the attention weights. Right: the gradient of the loss with respect to the scores. The
    line below holds the largest difference between dq, dk, dv and their complex steps, each
    relative to its largest entry, as measured for these very arrays.

    .. math:: \frac{\partial L}{\partial x} = \frac{\mathrm{Im}\, L(x + i h)}{h}

    Parameters
    ----------
    q, do : ndarray, shape (T, D)
        Queries of one head, and the gradient of the loss with respect to its output.
    k, v : ndarray, shape (S, D)
    mask : ndarray of bool, shape (T, S), optional
        True where a query may attend to a key. Other cells are blank.
    tokens : list of str, optional
        Labels of the keys; if T = S, also of the queries.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    name : str
        The name of the head.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If shapes or the number of labels do not match.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 1. The complex step: Squire and Trapp
    (1998), "Using Complex Variables to Estimate Derivatives of Real Functions".
    """
    T, D = check_array("forward_and_backward", "q", q, "(T, D)").values()
    S = check_array("forward_and_backward", "k", k, "(S, D)", D=D)["S"]
    check_array("forward_and_backward", "v", v, "(S, D)", S=S, D=D)
    check_array("forward_and_backward", "do", do, "(T, D)", T=T, D=D)
    mask = np.ones((T, S), bool) if mask is None else np.asarray(mask, bool)
    if mask.shape != (T, S):
        raise ValueError(f"forward_and_backward: mask has shape {mask.shape}, but must have "
                         f"(T, S) = ({T}, {S}).")
    if tokens is not None and len(tokens) != S:
        raise ValueError(f"forward_and_backward: {len(tokens)} labels for S={S} keys; "
                         "give one per key.")
    q, k, v, do = (x.astype(np.float64)[None, None] for x in (q, k, v, do))     # (1, 1, T, D)
    _, saved = attention(q, k, v, mask)
    p, saved_softmax = saved[3], saved[-1]
    dscores = softmax_backward(do @ v.mT, saved_softmax)[0, 0]                  # (T, S)

    axes = panels(ax, 2, 2, (8, 7.4), width_ratios=(2, 1))
    _write_code(axes[0, 0], "forward", [FORMULA, "", *_lines(attention, "scores = ", "o = ")])
    _write_code(axes[1, 0], "backward, by hand", _lines(attention_backward, "# ", "dk = "))
    top = float(np.abs(dscores).max()) or 1.0
    _draw_map(axes[0, 1], p[0, 0], mask, tokens, 0, float(p.max()), f"p of {name}")
    _draw_map(axes[1, 1], dscores, mask, tokens, -top, top, "dscores")
    figure = axes[0, 0].figure
    if ax is None:
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    error = complex_step_error(q, k, v, do, mask)
    figure.supxlabel("no autograd: dq, dk and dv agree with the complex step to "
                     f"{error:.0e}")
    return figure


def complex_step_error(q, k, v, do, mask):
    """The largest error of dq, dk and dv, each relative to its largest entry.

    Examples
    --------
    >>> arrays = np.random.default_rng(0).standard_normal((4, 1, 1, 5, 3))
    >>> complex_step_error(*arrays, np.tri(5, dtype=bool)) < 1e-14
    True
    """
    inputs = q, k, v
    gradients = attention_backward(do, attention(*inputs, mask)[1])
    errors = []
    for number, (x, dx) in enumerate(zip(inputs, gradients)):
        copies = [np.repeat(y.astype(complex), x.size, axis=0) for y in inputs]
        copies[number].reshape(x.size, x.size)[np.diag_indices(x.size)] += 1j * STEP
        loss = (attention(*copies, mask)[0] * do).sum(axis=(1, 2, 3))         # one step a copy
        errors.append(np.abs(loss.imag / STEP - dx.ravel()).max() / np.abs(dx).max())
    return float(np.max(errors))                      # max of Python may drop a NaN


def _lines(function, first, last):
    """The lines of a function from the first to the last pattern, without trailing comments."""
    lines = inspect.getsource(function).split("\n")
    start = next(n for n, line in enumerate(lines) if re.match(r"\s+" + first, line))
    stop = next(n for n, line in enumerate(lines) if n >= start and re.match(r"\s+" + last, line))
    lines = textwrap.dedent("\n".join(lines[start:stop + 1])).split("\n")
    return [line if line.startswith("#") else re.sub(r"\s{2,}#.*", "", line) for line in lines]


def _write_code(ax, title, lines):
    """Lines of code as text on a tinted box; empty lines take half the height, formulas more."""
    from matplotlib.patches import FancyBboxPatch

    ground, comment = ("#23262d", colours(ax)[1]) if is_dark(ax) else ("#f3f5f8", colours(ax)[1])
    ax.axis("off")
    ax.set_title(title, loc="left")
    ax.add_patch(FancyBboxPatch((0, 0), 1, 1, boxstyle="round,pad=0,rounding_size=0.02",
                                transform=ax.transAxes, facecolor=ground, linewidth=0))
    heights = [1.8 if line.startswith("$") else 1.0 if line else 0.4 for line in lines]
    step = 0.97 / max(8.4, sum(heights)) if in_slides() else 0.9 / max(11, sum(heights))
    y = 0.5 + step * sum(heights) / 2
    for line, height in zip(lines, heights):
        ax.text(0.03, y - step * height / 2, line, transform=ax.transAxes, family="monospace",
                fontsize="x-large" if line.startswith("$") else "medium", va="center",
                color=comment if line.startswith(("#", "$")) else None).set_in_layout(False)
        y -= step * height


def _draw_map(ax, values, mask, tokens, low, high, name):
    """A map with colours by signed square roots, and its name as the title."""
    from matplotlib.colors import FuncNorm

    norm = FuncNorm((lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * x * x),
                    vmin=low, vmax=high)
    image = ax.imshow(np.where(mask, values, np.nan), norm=norm, aspect="auto",
                      cmap=signed_colours(ax) if low else sequential(ax), interpolation="nearest")
    if tokens is not None:
        label_ticks(ax.xaxis, tokens)
        if len(tokens) == len(mask):
            label_ticks(ax.yaxis, tokens)
    ax.tick_params(length=0, pad=3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(xlabel="key (rows: queries)", title=name)
    bar = ax.inset_axes([0.5, 0.86, 0.42, 0.05])
    ax.figure.colorbar(image, cax=bar, orientation="horizontal", ticks=[low, high])
    bar.set_xticklabels([_signed(low), _signed(high)] if low else ["0", f"{high:.2g}"])
    bar.tick_params(length=0)


def _signed(x):
    """A number with its sign and one digit: +2, -0.03, +20; powers of ten for what is tiny."""
    return f"{float(f'{x:.0e}'):+g}"
