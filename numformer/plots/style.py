"""The style of all pictures: settings of matplotlib, which are the same for everyone.

They start from matplotlib's defaults, not from the user's settings (a matplotlibrc, a style in a
notebook), of which pictures take the fonts alone.
"""

import os
import sys
import tempfile
from contextlib import chdir, contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from numformer.files import MIB, parse_json, read_file
from numformer.terminal import printable

GROUND, INK, BLUE, ACCENT = "#ffffff", "#1b1f24", "#1257a8", "#c8500a"
DARK_GROUND, DARK_INK, DARK_BLUE, DARK_ACCENT = "#14161a", "#e8e6e0", "#8ec5ff", "#ffb27a"
WIDTH, SIZE = 8.0, 12                                 # inches of a figure, points of its text
SLIDE, SLIDE_SIZE = (13.33, 7.5), 18                  # 16:9
_MODES = ContextVar("modes", default=frozenset())     # "dark", "slides"
# Settings that stay the user's: fonts, and what is no style but of windows and of the machine
USERS = ("font.family", "font.serif", "font.sans-serif", "font.cursive", "font.fantasy",
         "font.monospace", "backend", "interactive", "toolbar", "keymap", "webagg", "tk", "macosx",
         "timezone", "date.epoch", "savefig.directory", "figure.raise_window",
         "figure.max_open_warning", "animation.ffmpeg_path", "animation.convert_path")


@contextmanager
def in_style(chosen):
    """Draw inside this with statement in a style: a set of "dark" and "slides".

    Underflow to 0 is no error there, neither in the functions that draw nor in matplotlib.
    """
    _import_matplotlib()
    from matplotlib import rc_context

    before = _MODES.set(chosen)
    try:
        with rc_context({**_defaults(), **_style()}), np.errstate(under="ignore"):
            yield
    finally:
        _MODES.reset(before)


def _import_matplotlib():
    """Import matplotlib, with its own settings where the user's cannot be read."""
    if "matplotlib" in sys.modules:
        return
    try:
        path = _settings_file()
        if path is not None and not path.is_file() and str(path) != os.devnull:
            # A pipe, or a device, may never end
            print(f"numformer: {printable(str(path))} is no regular file, so the settings of "
                  "matplotlib are its defaults", file=sys.stderr, flush=True)
            raise PermissionError
        import matplotlib  # noqa: F401
    except (UnicodeDecodeError, PermissionError):      # of a matplotlibrc
        for name in [name for name in sys.modules if name.startswith("matplotlib")]:
            del sys.modules[name]                      # of an import that was broken off
        # A matplotlibrc of the working folder comes first: this one is that of the defaults
        with chdir(Path(find_spec("matplotlib").origin).parent / "mpl-data"):
            import matplotlib  # noqa: F401
    _find_fonts(matplotlib)


def _find_fonts(matplotlib):
    """Let matplotlib read its list of fonts, or make another one where that is none."""
    bad = next((path for path in sorted(Path(matplotlib.get_cachedir()).glob("fontlist-*"))
                if not _is_font_list(path)), None)
    if bad is None:
        return
    print(f"numformer: {printable(str(bad))} is no list of fonts of matplotlib; remove it, or "
          "fonts are looked for in every process", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        before, matplotlib.get_cachedir = matplotlib.get_cachedir, lambda: folder
        try:
            import matplotlib.font_manager  # noqa: F401
        finally:
            matplotlib.get_cachedir = before


def _is_font_list(path):
    """Whether matplotlib can read a list of fonts, or sees itself that it cannot.

    It waits for the other end of a pipe, and takes any object of the right version.
    """
    if path.is_dir():
        return True
    if not path.is_file():
        return False
    try:
        found = parse_json(read_file(path, 64 * MIB))
    except (OSError, ValueError):
        return True                                    # it makes a new one
    if not isinstance(found, dict) or found.get("__class__") != "FontManager":
        return True
    lists = [found.get("ttflist"), found.get("afmlist")]
    families = found.get("defaultFamily")
    if not isinstance(families, dict) or "_FontManager__default_weight" not in found:
        return False
    return (all(isinstance(families.get(kind), str) for kind in ("ttf", "afm"))
            and isinstance(found.get("default_size", ""), int | float | None)
            and all(isinstance(fonts, list) and all(map(_is_font, fonts)) for fonts in lists))


def _is_font(entry):
    return isinstance(entry, dict) and entry.get("__class__") == "FontEntry" and all(
        isinstance(entry.get(name), types) for name, types in (
            ("fname", str), ("name", str), ("style", str), ("variant", str), ("size", str),
            ("weight", int | str), ("stretch", int | str)))


def _settings_file():
    """The matplotlibrc that matplotlib is going to read, of those of a user; None if there is none.

    References
    ----------
    The documentation of `matplotlib.matplotlib_fname`.
    """
    given = os.environ.get("MATPLOTLIBRC") or "matplotlibrc"
    found = [Path("matplotlibrc"), Path(given), Path(given, "matplotlibrc")]
    with suppress(RuntimeError):                       # there is no home folder
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "matplotlib")
        own = [home] if sys.platform.startswith(("linux", "freebsd")) else []
        found += [Path(os.environ.get("MPLCONFIGDIR") or folder, "matplotlibrc")
                  for folder in [*own, Path.home() / ".matplotlib"][:1]]
    return next((path for path in found if path.exists() and not path.is_dir()), None)


@lru_cache(maxsize=1)
def _defaults():
    """matplotlib's own settings, but for those of `USERS`."""
    from matplotlib import rcParamsDefault

    return {name: value for name, value in rcParamsDefault.items() if not name.startswith(USERS)}


def _style():
    """The settings of a picture that are not matplotlib's defaults."""
    ground, ink, frame = ((DARK_GROUND, DARK_INK, "#6b7179") if "dark" in modes()
                          else (GROUND, INK, "#8a9099"))
    faces = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor",
                           "legend.facecolor"), ground)
    inks = dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor",
                          "ytick.labelcolor"), ink)
    frames = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "grid.color",
                            "hatch.color", "legend.edgecolor"), frame)
    sizes = dict.fromkeys(("axes.labelsize", "xtick.labelsize", "ytick.labelsize",
                           "legend.fontsize"), "medium")
    titles = dict.fromkeys(("axes.titlesize", "figure.titlesize"), 7 / 6 * 72 * text_inches())
    return {**faces, **inks, **frames, **sizes, **titles, "font.size": 72 * text_inches(),
            "lines.linewidth": 2.0, "lines.markersize": 6.0,
            "svg.hashsalt": "numformer"}                            # ids in an .svg would be random


def modes():
    """The style that is chosen now: a set of "dark" and "slides"."""
    return _MODES.get()


def in_slides():
    """Whether figures are made for slides."""
    return "slides" in _MODES.get()


def text_inches():
    """The height of a line of text, in inches."""
    return (SLIDE_SIZE if in_slides() else SIZE) / 72


def smallest_text(figure):
    """The points of the smallest visible text, where the figure is fitted to a slide."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    fit = min(side / inches for side, inches in zip(SLIDE, figure.get_size_inches()))
    return min((fit * text.get_fontsize() for text in figure.findobj(Text)
                if text.get_visible() and text.get_text().strip()), default=SLIDE_SIZE)
