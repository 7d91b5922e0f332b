"""Pictures of what goes on inside a model: its residual stream, its hidden units, and what it would say after each block."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.softmax import softmax
from numformer.plots.axes import colours, faint, new_axes, signed_colours, styles
from numformer.plots.tokens import label_ticks, visible


def residual_norms(stacks, ax=None, title="Residual stream"):
    """How long vectors are before the first block and after each: the median over places, and the band of the middle half.

    Parameters
    ----------
    stacks : dict of str to list of ndarray, each of shape (..., C)
        What `residual_stream` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
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
        raise ValueError("residual_norms: there is no stream to draw.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    for (name, stream), style in zip(stacks.items(), styles(ax, len(stacks))):
        lengths = [np.sqrt((x.astype(np.float64) ** 2).sum(axis=-1)).ravel() for x in stream]
        low, middle, high = np.array([np.percentile(each, (25, 50, 75)) for each in lengths]).T
        ax.plot(range(len(stream)), middle, label=name, **style)
        ax.fill_between(range(len(stream)), low, high, color=style["color"], alpha=0.2)
    ax.set(xlabel="after block", ylabel="length of a vector", yscale="log", title=title)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def activation_histograms(activations, dead=None, ax=None, title="Hidden units"):
    """How often hidden units say what: a histogram for every feed-forward, on a logarithmic axis.

    Parameters
    ----------
    activations : dict of str to ndarray
        What `hidden_activations` returned.
    dead : dict of str to float, optional
        The part of the units that are dead, by the same names: see `dead_units`. Named in the legend.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not activations:
        raise ValueError("activation_histograms: there are no activations to draw.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    ends = [float(each(x.min() if each is min else x.max() for x in activations.values())) for each in (min, max)]
    edges = np.linspace(*ends, 81) if ends[1] > ends[0] else np.linspace(ends[0] - 1, ends[0] + 1, 81)
    for (name, x), style in zip(activations.items(), styles(ax, len(activations))):
        counts, _ = np.histogram(x, edges)
        shown = name if name not in (dead or {}) else f"{name}: {100 * dead[name]:.1f}% dead"
        ax.plot((edges[1:] + edges[:-1]) / 2, counts / x.size, label=shown, markevery=10, markersize=4, **style)
    ax.set(xlabel="activation", ylabel="part of all", yscale="log", title=title)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    return ax


def lens_map(logits, vocabulary, tokens, ax=None, title="What the model would say after each block"):
    """The likeliest next token after each block, from the embedding below to the model's own answer on top; brighter where it is surer.

    Parameters
    ----------
    logits : ndarray, shape (L + 1, T, V)
        Of one text: what `logit_lens` returned.
    vocabulary : list of V str
    tokens : list of T str
        The text.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If shapes and labels do not fit.

    References
    ----------
    nostalgebraist (2020), "interpreting GPT: the logit lens".
    """
    L, T, V = check_array("lens_map", "logits", logits, "(L, T, V)").values()
    for name, labels, size in (("vocabulary", vocabulary, V), ("tokens", tokens, T)):
        if len(labels) != size:
            raise ValueError(f"lens_map: {name} has {len(labels)} labels, but logits of shape {logits.shape} need {size}.")
    ax = new_axes((2 + 0.45 * T, 1.6 + 0.42 * L)) if ax is None else ax
    p, _ = softmax(logits)
    image = ax.imshow(p.max(axis=-1), cmap="cividis", vmin=0, vmax=1, aspect="auto", origin="lower", interpolation="nearest")
    for (layer, t), best in np.ndenumerate(logits.argmax(axis=-1)):
        ax.text(t, layer, visible(vocabulary[best]), ha="center", va="center", fontsize=8,
                color="black" if p[layer, t, best] > 0.5 else "white")
    ax.figure.colorbar(image, ax=ax, label="probability of it", shrink=0.9)
    label_ticks(ax.xaxis, tokens)
    ax.set_yticks(range(L), ["embedding", *range(1, L)], fontsize=8)
    ax.set(xlabel="after this token", ylabel="after block", title=title)
    return ax


def contribution_bars(parts, token, ax=None, title=None):
    """What each part of a model adds to the logit of a token, and the sum, which is that logit.

    Parameters
    ----------
    parts : dict of str to float
        What `logit_contributions` returned.
    token : str
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
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
        raise ValueError("contribution_bars: there are no parts to draw.")
    values = [*parts.values(), sum(parts.values())]
    ax = new_axes((6.4, 1.2 + 0.3 * len(values))) if ax is None else ax
    top = max(map(abs, values)) or 1.0
    shades = signed_colours()
    bars = ax.barh(range(len(values)), values, color=[shades(0.5 + 0.5 * value / top) for value in values], edgecolor=faint(ax))
    bars[-1].set_hatch("//")
    ax.bar_label(bars, [f"{value:+.2f}" for value in values], padding=3, fontsize=8)
    ax.axvline(0, color=colours(ax)[3], linewidth=0.8)
    ax.set_yticks(range(len(values)), [*parts, "sum: the logit"], fontsize=8)
    ax.invert_yaxis()
    ax.margins(x=0.18)
    ax.set(xlabel="logit", title=f"What speaks for {visible(token)}" if title is None else title)
    return ax


def dead_unit_bars(dead, ax=None, title="Hidden units that are never heard"):
    """The part of dead units of every feed-forward.

    Parameters
    ----------
    dead : dict of str to float
        By name; see `dead_units`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not dead:
        raise ValueError("dead_unit_bars: there are no feed-forwards to draw.")
    ax = new_axes((6.4, 1.2 + 0.3 * len(dead))) if ax is None else ax
    bars = ax.barh(range(len(dead)), [100 * part for part in dead.values()], color=colours(ax)[2])
    ax.bar_label(bars, [f"{100 * part:.1f}%" for part in dead.values()], padding=3, fontsize=8)
    ax.set_yticks(range(len(dead)), list(dead), fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel="% of the units", xlim=(0, 100), title=title)
    return ax
