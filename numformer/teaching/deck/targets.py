"""What the names in the table of the decks refer to."""

import ast
import inspect
from functools import cache
from importlib import import_module
from pathlib import Path

import numformer

PACKAGE = Path(numformer.__file__).parent


def find(name):
    """The object of a dotted name below ``numformer``: a function, a class, a value or a module.

    Raises
    ------
    LookupError
        If there is none.

    Examples
    --------
    >>> find("layers.LSTM.step").__name__
    'step'
    """
    found = numformer
    parts = name.split(".")
    for n, part in enumerate(parts, 1):
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = import_module("numformer." + ".".join(parts[:n]))
        except ModuleNotFoundError:
            raise LookupError(f"numformer.{name} does not exist") from None
    return found


def page(name):
    """The file of a name of code, from the repository's folder: ``numformer/functional/...``.

    Examples
    --------
    >>> page("functional.rotary")
    'numformer/functional/positions/rotary.py'
    >>> page("models.LLAMA")
    'numformer/models/decoder/config.py'
    """
    found = inspect.unwrap(find(name)) if callable(find(name)) else find(name)
    try:
        path = Path(inspect.getsourcefile(found))
    except TypeError:                                           # a value does not know its page
        path = _page_of_value(*name.rpartition(".")[::2])
    return path.relative_to(PACKAGE.parent).as_posix()


def _page_of_value(module, name):
    """The page that assigns a name, found along the imports of the name."""
    path = Path(inspect.getsourcefile(find(module)))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return _page_of_value(node.module.removeprefix("numformer."), name)
    return path


@cache
def conventions():
    """(place, claim, correction) of every row on misprints of `CONVENTIONS.md`.

    Examples
    --------
    >>> conventions()[0][0]
    'D, positional encoding, eq. 7 and 8'
    """
    text = (PACKAGE / "CONVENTIONS.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text[text.index("## Slips"):].split("\n")
            if line.startswith("| ") and not line.startswith("| deck ")]
    return [tuple(row[:3]) for row in rows]


def misprint(place):
    """The rows of `conventions` that the place of a slip refers to: exactly one, if it is right.

    Examples
    --------
    >>> (place, claim, correction), = misprint("A, RMSNorm|the same norm")
    >>> claim
    'gives all words the same norm'
    """
    place, _, words = place.partition("|")
    return [row for row in conventions() if row[0] == place and words in row[1]]
