"""Follow the pages that say how to add a part, in a copy of the project.

    python tests/house/adding.py    # the files and lines that each page touches

A section whose title ends with a path in backquotes is about that file. Its block of python is the
whole of a new file; a block of diff has the lines that are added next to one that is there.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
MATHEMATICS = ("tests/verify/test_contract.py", "tests/functional/test_ranges.py",
               "tests/specifications", "tests/verify/test_planted_bugs.py",
               "tests/teaching/test_check.py", "tests/teaching/mutations",
               "tests/backend/test_dispatch.py")


class Page(NamedTuple):
    """What is expected of a page.

    Parameters
    ----------
    most : int
        Files that it may touch.
    adds : str
        The name of what it adds, for ``pytest -k``.
    tests : tuple of str
        Where that is tested besides its new files.
    fewest : int
        How many tests of it there are.
    """

    most: int
    adds: str
    tests: tuple = MATHEMATICS
    fewest: int = 10


PAGES = {
    "numformer/ADDING_AN_ACTIVATION.md": Page(3, "mish"),
    "numformer/ADDING_A_FUNCTION.md": Page(3, "softplus"),
    "numformer/ADDING_A_LAYER.md": Page(6, "scale and norm"),
    "numformer/ADDING_A_POSITION_SCHEME.md": Page(4, "kerple"),
    "numformer/ADDING_A_MODEL.md": Page(6, "mean and language"),
    "numformer/recipes/ADDING_A_PRESET.md": Page(
        2, "gru", ("tests/recipes/test_preset_contract.py",), 5),
    "numformer/plots/ADDING_A_PLOT.md": Page(2, "singular_values", (), 3),
    "numformer/commands/ADDING_A_VERB.md": Page(
        3, "tokens", ("tests/commands/test_cli.py", "tests/commands/environments"), 3),
    "numformer/teaching/ADDING_AN_EXERCISE.md": Page(
        1, "_log_softmax_backward", ("tests/teaching/test_exercises.py",), 2)}


def copied(folder):
    """A copy of the files that git knows or would add."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           cwd=REPOSITORY, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, target)
    return folder


def steps(page):
    """(path, "python" or "diff", text) of every block of a page that is about a file."""
    for title, body in re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", page.read_text(), re.MULTILINE):
        path = re.search(r"`([^`]+/[^`]+)`$", title)
        if path is not None:
            for kind, text in re.findall(r"^```(python|diff)\n(.*?)^```$", body,
                                         re.MULTILINE | re.DOTALL):
                yield path[1], kind, text


def follow(page, root):
    """Do what a page says in a copy of the project; {path: number of lines that were added}."""
    touched = {}
    for path, kind, text in steps(page):
        file = root / path
        lines = text.splitlines(keepends=True)
        if kind == "python":
            assert not file.exists(), f"{path} is there already"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            n_added = len(lines)
        else:
            known = "".join(line[1:] for line in lines if line[0] == " ")
            old = file.read_text()
            assert old.count(known) == 1, f"{path} has {old.count(known)} times {known!r}"
            file.write_text(old.replace(known, "".join(line[1:] for line in lines)))
            n_added = sum(line[0] == "+" for line in lines)
        touched[path] = touched.get(path, 0) + n_added
    return touched


if __name__ == "__main__":
    import tempfile

    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            touched = follow(REPOSITORY / page, copied(Path(folder)))
        print(f"{page}: {len(touched)} files, {sum(touched.values())} lines")
