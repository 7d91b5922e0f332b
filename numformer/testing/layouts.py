"""The order of axes in another implementation, such as heads behind positions or merged."""

import re

import numpy as np


class LayoutError(ValueError):
    """A layout that does not fit an array: a mistake of the caller, not of the function."""


class Layout:
    """How another implementation orders the axes of an array.

    Parameters
    ----------
    text : str
        Our axes and theirs, one letter each, such as "BHTD->BTHD", or "BHTD->BT(HD)" where they
        have merged two axes into one; or "IO->OI".

    Raises
    ------
    ValueError
        If the text is not of this form, or its sides have different letters.

    Examples
    --------
    >>> layout = Layout("BHTD->BT(HD)")
    >>> layout.to_theirs(np.zeros((2, 3, 5, 4))).shape
    (2, 5, 12)
    >>> layout.to_ours(np.zeros((2, 5, 12)), (2, 3, 5, 4)).shape
    (2, 3, 5, 4)
    """

    def __init__(self, text):
        ours, arrow, theirs = str(text).replace(" ", "").partition("->")
        self.text, self.ours, flat = text, ours, theirs.replace("(", "").replace(")", "")
        form = arrow and ours.isalpha() and re.fullmatch(r"([A-Za-z]|\([A-Za-z]+\))+", theirs)
        if not form or len(set(ours)) < len(ours) or sorted(ours) != sorted(flat):
            raise ValueError(f"layout={text!r} must name our axes and theirs, each by one letter, "
                             'as in "BHTD->BTHD", "IO->OI" or "BHTD->BT(HD)".')
        self.order = [ours.index(letter) for letter in flat]
        self.groups = [group.strip("()") for group in re.findall(r"\(\w+\)|\w", theirs)]

    def to_theirs(self, x):
        """An array of ours in their order."""
        sizes = self._sizes(np.shape(x))
        merged = [np.prod([sizes[letter] for letter in group], dtype=int) for group in self.groups]
        return x.transpose(self.order).reshape(merged)

    def to_ours(self, x, shape):
        """An array of theirs in our order, where ours has this shape.

        It stays as it is if its own shape is wrong, for the comparison.
        """
        sizes = self._sizes(shape)
        if x.ndim != len(self.groups):
            return x
        flat = []
        for group, size in zip(self.groups, x.shape):
            parts = [sizes[letter] for letter in group] if len(group) > 1 else [size]
            if np.prod(parts, dtype=int) != size:
                return x
            flat += parts
        return x.reshape(flat).transpose(np.argsort(self.order))

    def _sizes(self, shape):
        """The size of each letter in an array of ours."""
        if len(shape) != len(self.ours):
            raise LayoutError(f"layout={self.text!r} is one of {len(self.ours)} axes, but the "
                              f"array has shape {tuple(shape)}; give the layouts by name, as in "
                              '{"q": "BHTD->BTHD"}.')
        return dict(zip(self.ours, shape))


def layouts_of(layout, names):
    """{name: Layout} of the arrays with these names, from what a caller gave."""
    if layout is None:
        return {}
    if isinstance(layout, str):
        return dict.fromkeys(names, Layout(layout))
    if not isinstance(layout, dict):
        raise TypeError("layout must be a str or a dict of them by name, but is "
                        f"{type(layout).__name__}.")
    unknown = sorted(set(layout) - set(names))
    if unknown:
        raise ValueError(f"layout names {', '.join(map(repr, unknown))}; choose from "
                         f"{', '.join(names)} (a gradient has the layout of its array).")
    return {name: Layout(text) for name, text in layout.items()}
