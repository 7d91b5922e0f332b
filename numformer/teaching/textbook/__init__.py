"""The functions as a textbook writes them: one formula after the other, nothing saved or shared.

A student's mistake is a change of one of these lines more often than of the reference's, which
saves time and memory. They are right, as a test shows, and serve the search for causes alone.
"""

from numformer.teaching.textbook import (
    activations, attention, indexed, losses, norms, recurrent, windows)

PAGES = (activations, attention, indexed, losses, norms, recurrent, windows)


def versions(name):
    """The textbook's versions of a function or backward: a list of functions.

    A version takes what a student's function takes: `(x, ...)`, or `(dy, x, ...)` for a backward.

    Examples
    --------
    >>> [version.__name__ for version in versions("layer_norm_backward")]
    ['layer_norm_backward', 'layer_norm_backward_in_steps']
    """
    return [function for page in PAGES for key, function in vars(page).items()
            if (key == name or key.startswith(f"{name}_in_"))
            and function.__module__ == page.__name__]
