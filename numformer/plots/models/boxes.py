"""Boxes, sums and arrows of a block diagram, in units of an axes without ticks."""

from textwrap import wrap

from numformer.plots.axes import colours, faint

HEIGHT, GAP, WIDTH = 0.86, 0.42, 3.7                          # of a box, and between two


def draw_box(ax, x, y, name, detail="", kind=None, width=WIDTH):
    """A box with its lower edge at y; returns its upper edge."""
    from matplotlib.patches import FancyBboxPatch

    strong = colours(ax)
    face = {"attention": strong[2], "feedforward": strong[1], "norm": strong[7]}.get(kind)
    ax.add_patch(FancyBboxPatch(
        (x - width / 2, y), width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.12",
        facecolor=face or faint(ax), alpha=0.35, edgecolor="none"))
    ax.add_patch(FancyBboxPatch(
        (x - width / 2, y), width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.12",
        facecolor="none", edgecolor=strong[0], linewidth=1.2))
    lines = wrap(detail, 33)
    ax.text(x, y + HEIGHT / 2, "\n".join([name, *lines]), ha="center", va="center",
            linespacing=1.25 if len(lines) < 2 else 1.1)
    return y + HEIGHT


def draw_arrow(ax, *points, dashed=False, label=None):
    """A line through points that ends in an arrow."""
    colour, style = colours(ax)[0], "--" if dashed else "-"
    xs, ys = zip(*points)
    ax.plot(xs[:-1], ys[:-1], color=colour, linestyle=style, linewidth=1.2,
            solid_joinstyle="round")
    ax.annotate("", points[-1], points[-2], label=label, arrowprops=dict(
        arrowstyle="-|>", color=colour, linestyle=style, linewidth=1.2, shrinkA=0, shrinkB=0))


def without_ticks(ax, left, right, bottom, top):
    """Limits of equal units, and neither ticks nor spines."""
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    ax.set_axis_off()
