"""Every verb, with small arguments, in one process.

`python tests/commands/environments/every_verb.py VERB ...` works in the working folder, where
`text.txt` is a text, `run` a run and `solved` a student's folder, and prints as JSON what `outcome`
returns of each command that the page of a verb begins with.
"""

import ast
import io
import json
import re
import shlex
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

from numformer.cli import PAGES

# they write what commands of others use
FIRST = ("train", "export", "import", "exercises", "grade")


def commands_of(page):
    """The commands in the docstring of the page of a verb, each as its words after `numformer`."""
    tree = ast.parse(Path(find_spec(page).origin).read_text("utf-8"))
    text = ast.get_docstring(tree, clean=False)
    lines = re.findall(r"^ {4}numformer (.*)", text.replace("\\\n", ""), re.MULTILINE)
    return [shlex.split(line) for line in lines]


COMMANDS = {verb: commands_of(PAGES[verb][0]) for verb in dict.fromkeys([*FIRST, *PAGES])}


def outcome(words):
    """{"words", "status", "stdout", "stderr"} of a command; a traceback is part of stderr."""
    from numformer.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), sys.stdout.encoding, sys.stdout.errors)
                for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([*words])
        except SystemExit as end:
            status = end.code
        except Exception:
            status = None
            traceback.print_exc()
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode(errors="replace"))
    return {"words": words, "status": status, "stdout": said[0], "stderr": said[1]}


if __name__ == "__main__":
    from numformer.commands.shared import process

    process.prepare()
    print(json.dumps([outcome(words) for verb in sys.argv[1:] for words in COMMANDS[verb]]))
