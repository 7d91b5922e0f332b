"""A plugin of pytest: each test runs twice, and its pictures must be the same bytes.

The second time every setting of matplotlib has another value, but for the user's fonts and what is
no style.
"""

import copy
import io
import warnings
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from numformer.experiments.costs import efficient_attention, three_ways
from numformer.plots.style import USERS

# Each setting takes the first of these that it allows and does not have already
OTHERS = (True, False, 3, 0.37, "svg", "red", "lower", "top", "right", "bold", "italic", "both",
          "minor", "tight", "dashed", "large", "stix", "type42", "none", "in", "miter",
          "projecting", "round_numbers", "gouraud", (0.1, 0.2), (1, 100, 2),
          matplotlib.cycler(color=["red", "lime"]))


# Of tests that draw themselves, with the user's settings then, or change what they call
OWN = {"Figure", "add_subplot", "subplots", "plot", "imshow", "text", "set_text", "monkeypatch"}


def other_settings():
    """A value for every setting of matplotlib that has another one than its default."""
    found = {"font.style": "italic", "font.variant": "small-caps"}    # a bad value is noticed late
    for name, default in matplotlib.rcParamsDefault.items():
        if not name.startswith((*USERS, *found)):
            for value in OTHERS:
                if isinstance(default, bool) <= isinstance(value, bool):
                    with warnings.catch_warnings():
                        warnings.simplefilter("error")         # a setting that will be removed
                        try:
                            checked = matplotlib.RcParams({name: value})[name]
                        except Exception:
                            continue
                    if checked != default:
                        found[name] = value
                        break
    return found


@contextmanager
def figures_made():
    """A list of the figures that are made inside this with statement."""
    made, make = [], Figure.__init__

    def recorded(figure, *arguments, **options):
        make(figure, *arguments, **options)
        made.append(figure)

    Figure.__init__ = recorded
    try:
        yield made
    finally:
        Figure.__init__ = make


def files(figures):
    """The bytes of figures, saved in one format after the other."""
    found = []
    for figure, kind in zip(figures, 40 * ("png", "png", "svg")):
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=40, metadata={"Date": None} if kind == "svg" else {})
        found.append(data.getvalue())
    return found


def twice(draw, again=None):
    """The files of the figures that a function makes: with the defaults, and with other settings.

    draw, again : callable
        The second time `again` makes them, by default the same function.
    """
    for draw, settings in ((draw, matplotlib.rcParamsDefault), (again or draw, other_settings())):
        settings = {name: value for name, value in settings.items() if not name.startswith(USERS)}
        with figures_made() as figures, matplotlib.rc_context(settings):
            draw()
            yield files(figures)


def pytest_configure():
    """Pictures of measured times have the same times in both pictures."""
    for experiment in (efficient_attention, three_ways):
        experiment.layer_costs = lambda layer, N, width, **options: (N / 100, 1000 * N)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    names = {*pyfuncitem._fixtureinfo.argnames, *pyfuncitem.obj.__code__.co_names}
    if names & OWN:
        return None                                   # once, as usual
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    def run():
        pyfuncitem.obj(**{name: copy.deepcopy(value) if isinstance(value, np.random.Generator)
                          else value for name, value in given.items()})

    passed = []

    def run_again():
        try:
            run()
            passed.append(True)
        except Exception as error:                    # of a test that itself measures or draws
            pages = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
            if any("numformer" in Path(page).parts[:-1] and "tests" not in Path(page).parts
                   for page in pages) and not isinstance(error, AssertionError):
                raise

    one, other = twice(run, run_again)
    assert one[:len(other)] == other, "settings change its pictures"
    assert len(one) == len(other) or not passed
    return True
