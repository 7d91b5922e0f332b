"""The residual stream: norms, the logit lens, and contributions to a logit."""

import math

import numpy as np

from numformer.analysis.capture import residual_stream
from numformer.analysis.logit_lens import logit_contributions, logit_lens
from numformer.backend import one_blas_thread
from numformer.checks import check_array
from numformer.finite import predicted_classes
from numformer.functional.softmax import softmax
from numformer.models import Decoder
from numformer.plots.axes import (
    WIDTH, colours, entitle, in_slides, new_axes, panels, plain_ticks, readable_on, sequential,
    styled, styles, text_inches)
from numformer.plots.pictures import picture_of_run
from numformer.plots.text.labels import ORDINARY, label
from numformer.plots.tokens import label_ticks, name_ticks, plain, visible

PER_ROW, FEWEST = 16, 4                               # tokens of a panel of the logit lens
LONGEST_CELL = 8                                      # letters in one of its cells


@styled
def residual_norms(stacks, ax=None, title="Residual stream"):
    """Norms of the vectors before the first block and after each: median and quartiles.

    Parameters
    ----------
    stacks : dict of str to list of ndarray, each of shape (..., C)
        From `residual_stream`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not stacks:
        raise ValueError("residual_norms: stacks is empty; there is nothing to draw.")
    ax = new_axes() if ax is None else ax
    for (name, stream), style in zip(stacks.items(), styles(ax, len(stacks))):
        norms = [np.sqrt((x.astype(np.float64) ** 2).sum(axis=-1)).ravel() for x in stream]
        low, middle, high = np.array([np.percentile(each, (25, 50, 75)) for each in norms]).T
        ax.plot(range(len(stream)), middle, label=plain(name), **style)
        ax.fill_between(range(len(stream)), low, high, color=style["color"], alpha=0.2)
    ax.set(xlabel="after block", ylabel="norm of the vectors", yscale="log", title=title)
    plain_ticks(ax.yaxis)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(alpha=0.3)
    if len(stacks) > 1:
        ax.legend()
    return ax


@styled
def lens_map(logits, vocabulary, tokens, ax=None,
             title="Logit lens: the prediction after each block"):
    """The most likely next token after each block, from the embedding up to the model's output.

    Darker cells have a higher probability. A long text continues in the next panel.

    Parameters
    ----------
    logits : ndarray, shape (L + 1, T, V)
        From `logit_lens`, of one text.
    vocabulary : list of V str
    tokens : list of T str
        The text.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If shapes and labels do not match.

    References
    ----------
    nostalgebraist (2020), "interpreting GPT: the logit lens".
    """
    L, T, V = check_array("lens_map", "logits", logits, "(L, T, V)").values()
    for name, labels, size in (("vocabulary", vocabulary, V), ("tokens", tokens, T)):
        if len(labels) != size:
            raise ValueError(f"lens_map: {name} has {len(labels)} labels, but logits of shape "
                             f"{logits.shape} need {size}.")
    p, _ = softmax(logits)
    labels = {best: label(visible(vocabulary[best], LONGEST_CELL))
              for best in p.argmax(axis=-1).flat}
    widest = max(each.width for each in labels.values())
    margin = 0.3 if widest <= 2 * ORDINARY else 0.7 + 0.15 * widest   # capitals and + are wide
    most = int(0.74 * WIDTH / ((widest + margin) * text_inches()))    # next to ticks and colours
    per_row = min(PER_ROW, max(FEWEST, most))
    width = math.ceil(T / math.ceil(T / per_row))                     # panels of equal length
    starts = range(0, T, width)
    axes = panels(ax, len(starts), 1, (WIDTH, 0.7 + (0.75 + 0.31 * L) * len(starts)))[:, 0]
    for panel, start in zip(axes, starts):
        part = p[:, start:start + width]
        blank = np.full((L, width - part.shape[1]), np.nan)
        image = panel.imshow(np.concatenate([part.max(axis=-1), blank], axis=1), vmin=0, vmax=1,
                             cmap=sequential(panel), aspect="auto", origin="lower",
                             interpolation="nearest")
        for (layer, t), best in np.ndenumerate(part.argmax(axis=-1)):
            shown, font, wide = labels[best]
            large = wide <= 2 * ORDINARY and not in_slides()
            panel.text(t, layer, shown, **font, ha="center", va="center",
                       fontsize=72 * text_inches() * (1.35 if large else 1),
                       color=readable_on(image, part[layer, t, best]))
        label_ticks(panel.xaxis, tokens[start:start + width])
        panel.set_yticks(range(L), ["embedding", *(f"block {n}" for n in range(1, L))])
    axes[-1].set_xlabel("input token")
    figure = axes[0].figure
    figure.colorbar(image, ax=list(axes), label="probability", shrink=0.7)
    entitle(ax, axes[0], title)
    return figure


@styled
def contribution_bars(parts, token, ax=None, title=None):
    """The contribution of each component to the logit of a token, and their sum, the logit.

    Parameters
    ----------
    parts : dict of str to float
        From `logit_contributions`.
    token : str
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no parts.
    """
    if not parts:
        raise ValueError("contribution_bars: parts is empty; there is nothing to draw.")
    values = [*parts.values(), sum(parts.values())]
    ax = new_axes((WIDTH, 1.3 + 0.36 * len(values))) if ax is None else ax
    below, above = colours(ax)[:2]
    bars = ax.barh(range(len(values)), values, color=[above if value > 0 else below
                                                      for value in values])
    bars[-1].set_edgecolor(ax.get_facecolor())                        # of the hatches
    bars[-1].set_hatch("//")
    ax.bar_label(bars, [f"{value:+.2f}" for value in values], padding=3)
    ax.axvline(0, color=colours(ax)[2], linewidth=0.8)
    name_ticks(ax.yaxis, range(len(values)), [*parts, "sum: the logit"])
    ax.invert_yaxis()
    ax.margins(x=0.18)
    ax.set(xlabel="logit", title=f"Contributions to the logit of {visible(token, 12)}"
           if title is None else title)
    return ax


@picture_of_run("residual", "text")
def _residual(run):
    """Norms of the residual stream between the blocks."""
    with one_blas_thread():
        return residual_norms(residual_stream(run.model, *run.reading().inputs))


@picture_of_run("lens", "text")
def _lens(run):
    """Logit lens: the prediction of a decoder after each block."""
    reading = _reading_of_a_decoder(run)
    with one_blas_thread():
        logits = logit_lens(run.model, reading.inputs[0])[:, 0]
        return lens_map(logits, run.vocabulary(), reading.read)


@picture_of_run("contributions", "text", "token")
def _contributions(run):
    """Contributions of components to the logit of the most likely token, or of --token."""
    ids = _reading_of_a_decoder(run).inputs[0]
    with one_blas_thread():
        logits, token = run.model(ids)[0, -1], run.token()
        if token is None:
            token = int(predicted_classes("contributions", logits, run.model))
        parts = logit_contributions(run.model, ids, token)
    return contribution_bars(parts, run.vocabulary()[token])


def _reading_of_a_decoder(run):
    """The input of a model whose head can be applied after every block."""
    if not isinstance(run.model, Decoder):
        raise ValueError(f"{type(run.model).__name__} has no final norm and LM head after its "
                         "blocks, as a Decoder has.")
    return run.reading()
