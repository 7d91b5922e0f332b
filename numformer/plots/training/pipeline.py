"""The schedule of a pipeline: what each stage does when, and the bubble that idle time makes."""

from numformer.analysis import bubble_share
from numformer.plots.axes import (
    WIDTH, cell_inches, colours, faint, legend_below, new_axes, styled, text_inches)
from numformer.plots.tokens import label_ticks

ROW = 0.8                                             # height of a box; rows are 1 apart


@styled
def pipeline_picture(schedule, ax=None, title="Pipeline"):
    """A row for each stage: boxes are forwards and backwards, and hatches are idle time.

    Boxes have the number of their micro-batch where there is space; stages and micro-batches are
    counted from 1. The title ends with the share of idle time.

    Parameters
    ----------
    schedule : sequence of Operation
        From `numformer.analysis.pipeline_schedule`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no operations.

    References
    ----------
    After Narayanan et al. (2021), "Efficient Large-Scale Language Model Training on GPU Clusters
    Using Megatron-LM", figures 3 and 4.

    Examples
    --------
    >>> from numformer.analysis import pipeline_schedule
    >>> pipeline_picture(pipeline_schedule(4, 8), title="1F1B").get_title()
    '1F1B: 27% of the time is idle'
    """
    if not schedule:
        raise ValueError("pipeline_picture: schedule is empty; there is nothing to draw.")
    stages = 1 + max(operation.stage for operation in schedule)
    first = min(operation.start for operation in schedule)
    whole = max(operation.stop for operation in schedule) - first
    if ax is None:
        ax = new_axes((WIDTH, 1.9 + 0.45 * stages))
    idle = _draw_idle(ax, stages, first, whole)
    boxes = [_draw_boxes(ax, [each for each in schedule if each.direction == direction], direction,
                         face, ink, (whole, stages))
             for direction, face, ink in (("forward", faint(ax), colours(ax)[4]),
                                          ("backward", colours(ax)[0], ax.get_facecolor()))]
    ax.set(xlim=(first, first + whole), ylim=(stages - 0.5, -0.5), xlabel="time", ylabel="stage",
           title=f"{title}: {bubble_share(schedule):.0%} of the time is idle")
    label_ticks(ax.yaxis, [str(stage + 1) for stage in range(stages)])
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "right", "top"]].set_visible(False)
    legend_below(ax, 3, handles=[*boxes, idle])
    return ax


def _draw_idle(ax, stages, first, whole):
    """Hatched rows below the boxes: what the boxes do not cover is idle time."""
    from matplotlib import rc_context

    with rc_context({"hatch.color": colours(ax)[1]}):
        return ax.barh(range(stages), whole, left=first, height=ROW, label="idle",
                       facecolor="none", edgecolor=colours(ax)[1], hatch="///", linewidth=0)


def _draw_boxes(ax, operations, label, face, ink, cells):
    """The boxes of one direction, and their numbers if all have space."""
    durations = [each.stop - each.start for each in operations]
    width, height = cell_inches(ax, *cells)           # of a unit of time, and of a row
    width *= min(durations, default=0)
    bars = ax.barh([each.stage for each in operations], durations, height=ROW, label=label,
                   left=[each.start for each in operations], facecolor=face,
                   edgecolor=ax.get_facecolor(),
                   linewidth=min(1.0, 0.1 * 72 * width))              # narrow boxes keep their face
    numbers = [str(each.micro_batch + 1) for each in operations]
    longest = max(map(len, numbers), default=0)
    if width > (0.62 * longest + 0.3) * text_inches() and ROW * height > 1.2 * text_inches():
        ax.bar_label(bars, numbers, label_type="center", color=ink)
    return bars
