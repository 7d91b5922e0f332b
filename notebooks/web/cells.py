"""What runs the cells of a page, in the browser's Python.

`run` executes a cell in the names of the cells before and hands on what it prints, returns and
draws. Packages come when they are first imported: `Packages` fetches them then.
"""

import ast
import base64
import hashlib
import importlib
import io
import json
import linecache
import re
import sys
import time
import traceback
import types
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path

FOLDER = Path("/cells")
MOST = 100_000                                        # characters that a cell may print
EVERY = 0.1                                           # seconds until a part of a line is shown


class Packages:
    """The last of Python's finders of modules: it brings a package that is asked for.

    Parameters
    ----------
    wheels : dict of str to list of (str, str)
        For a name that can be imported: addresses and SHA-256 of all that it needs.
    fetch : function of (str, str)
        Returns the bytes at an address, for a name.
    place : str
        Where they are unpacked.
    """

    def __init__(self, wheels, fetch, place):
        self.wheels, self.fetch, self.place, self.here = wheels, fetch, place, set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.wheels:
            return None
        for address, digest in self.wheels[name]:
            if address not in self.here:
                try:
                    data = bytes(self.fetch(address, name))
                except Exception as error:                # of the network, in the page's words
                    raise ImportError(f"{name} could not be loaded ({error}); run the cell again "
                                      "when there is a network") from None
                if hashlib.sha256(data).hexdigest() != digest:
                    raise ImportError(f"{address} is not the file that this page was built with")
                zipfile.ZipFile(io.BytesIO(data)).extractall(self.place)
                self.here.add(address)
        del self.wheels[name]
        importlib.invalidate_caches()
        return PathFinder.find_spec(name)


class Printed(io.TextIOBase):
    """Standard output: lines go to `show` as they come, up to a limit."""

    def __init__(self, show):
        self.show, self.parts, self.left, self.sent = show, [], MOST, 0

    def writable(self):
        return True

    def write(self, text):
        if self.left > 0:
            kept = text[:self.left]
            self.left -= len(kept)
            self.parts.append(kept if self.left else f"{kept}\n... (more is not shown)\n")
            if text.endswith("\n") or time.monotonic() - self.sent > EVERY:
                self.flush()
        return len(text)

    def flush(self):
        if self.parts:
            self.show("text", "".join(self.parts))
        self.parts, self.sent = [], time.monotonic()


def new_names():
    """The names of a new start, those of the module __main__."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    return main.__dict__


def run(code, number, names, show):
    """Run a cell.

    Parameters
    ----------
    code : str
    number : int
        Of the cell, as the page counts.
    names : dict
        What the cells before have defined.
    show : function of (str, str)
        Takes pieces of output: "text", "html", "png" in base64, or "error".

    Returns
    -------
    str
        JSON: whether it ended without an error, and whether a check at its end said right.
    """
    printed = Printed(show)
    before = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = printed
    ok, value = True, None
    try:
        value = _value(code, _file(code, number), names)
        printed.flush()
        _show(value, show)
        _show_figures(show)
    except BaseException as error:
        ok = False
        printed.flush()
        show("error", _words(error))
    finally:
        sys.stdout, sys.stderr = before
    verdict = getattr(value, "ok", None) if type(value).__name__ == "Verdict" else None
    return json.dumps({"ok": ok, "right": verdict})


def _file(code, number):
    """A file with the code, in which inspect and tracebacks find its lines."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"cell_{number}.py"
    path.write_text(code, "utf-8")
    linecache.cache.pop(str(path), None)
    return str(path)


def _value(code, path, names):
    """Execute the code; the value of its last line, if that is an expression."""
    code = re.sub(r"(?m)^%matplotlib.*$", "", code)
    magic = re.search(r"(?m)^[%!].*$", code)
    if magic:
        raise SyntaxError(f"{magic[0]}: commands of Jupyter and of a shell do not run on this page")
    tree = ast.parse(code, path)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, path, "exec"), names)
    return eval(compile(last, path, "eval"), names) if last else None


def _show(value, show):
    """What a notebook shows of a value: a picture, a table, or its words."""
    if value is None:
        return
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", bbox_inches="tight")
        show("png", base64.b64encode(picture.getvalue()).decode())
    elif hasattr(value, "_repr_html_") and not isinstance(value, type):
        show("html", value._repr_html_())
    else:
        show("text", f"{value!r}\n"[:MOST])


def _show_figures(show):
    """Pictures that pyplot still has, as a notebook shows them at the end of a cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        _show(pyplot.figure(number), show)
        pyplot.close(number)


def _words(error):
    """What went wrong, from the cell's own line on."""
    if isinstance(error, KeyboardInterrupt):
        return "Stopped. What the cell had defined until then is kept."
    frames = error.__traceback__
    while frames and not frames.tb_frame.f_code.co_filename.startswith(str(FOLDER)):
        frames = frames.tb_next
    said = "".join(traceback.format_exception(type(error), error, frames))
    if isinstance(error, SyntaxError) or frames is None:
        said = "".join(traceback.format_exception_only(error))
    said = re.sub(rf'File "{FOLDER}/cell_(\d+)\.py"', r"Cell \1", said)
    if isinstance(error, ModuleNotFoundError):
        said += f"({error.name} is not among the packages of this page.)\n"
    return said[-MOST:]
