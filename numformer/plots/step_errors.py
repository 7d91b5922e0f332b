"""Why gradients are checked by the complex step: the error of a derivative by step size."""

from numformer.plots.axes import new_axes, styled, styles
from numformer.plots.tokens import plain

FLOOR = 1e-17                                                 # where an error of exactly 0 is drawn
NAMES = {"central_difference": "central difference", "complex_step": "complex step"}


@styled
def step_error_curve(errors, ax=None, title="Error of a numerical derivative"):
    """The error of a derivative against its step size, one curve per method.

    Central differences give a U: truncation error at large steps, cancellation at small ones. The
    complex step subtracts nothing, so its error stays flat at rounding.

    Parameters
    ----------
    errors : dict of str to sequence of float
        ``steps``, and the errors of each method, as `step_errors` returns them.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no steps, or no errors.

    References
    ----------
    Squire and Trapp (1998), "Using Complex Variables to Estimate Derivatives of Real Functions",
    figure 1.
    """
    methods = {name: values for name, values in errors.items() if name != "steps"}
    if not methods or not len(errors.get("steps", ())):
        raise ValueError("step_error_curve: errors hold no steps, or no method; there is nothing "
                         "to draw.")
    ax = new_axes() if ax is None else ax
    for (name, values), style in zip(methods.items(), styles(ax, len(methods))):
        ax.plot(errors["steps"], [max(float(value), FLOOR) for value in values],
                label=plain(NAMES.get(name, name)), markersize=4, **style)
    ax.set(xscale="log", yscale="log", xlabel="step size h", ylabel="worst relative error",
           title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax
