"""Where a picture is drawn."""


def new_axes(size):
    """Axes of a figure of its own, made without pyplot: nothing global, no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()
