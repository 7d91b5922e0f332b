"""What only a browser's Python can show: limits of time where nothing interrupts, and 32 bits.

`in_pyodide.py FOLDER TEXT` adds them to the results of machines.py, as JSON. For the lesson, the
package of the default text is in FOLDER/default text.
"""

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

import machines

SLOW = ("switch-c",)                                  # 123,170 arrays take half a minute
SHORTER = {"steps=100": "steps=5", "% 25": "% 5", "(1, 2, 3)": "(1,)"}
LOOPS = "def softmax(z):\n    while True:\n        pass\n"


def loops(x):
    while True:
        pass


def catches(x):
    while True:
        try:
            np.exp(x)
        except Exception:
            continue


def iterates(x):
    return sum(1 for _ in iter(int, 1))


def grows(x):
    total = 0.0
    while total < 1:
        total *= 2
    return total


def branches(x, n=60):
    return n if n < 2 else branches(x, n - 1) + branches(x, n - 2)


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def limits(folder):
    """Words on functions that never end, of `check`, of `grade`, and for a process of its own."""
    from numformer import check
    from numformer.teaching import grade

    (Path(folder) / "exercises" / "student" / "01_softmax.py").write_text(LOOPS)
    (row,) = grade(Path(folder) / "exercises" / "student", seconds=0.5)
    try:
        process = check("softmax", loops, process=True)
    except ValueError as error:
        process = error
    loop = [check("softmax", fn, seconds=0.5).text
            for fn in (loops, catches, iterates, grows, branches)]
    in_use = [n for n in range(6) if sys.monitoring.get_tool(n)]
    return {"check": loop, "right afterwards": bool(check("softmax", softmax, seconds=10)),
            "in use": in_use, "process": str(process), "grade": row["feedback"]}


def counts():
    """The costs of published models, most with more bytes than an address has numbers."""
    from numformer.analysis import count
    from numformer.models import CONFIGS

    return {name: count(config) for name, config in CONFIGS.items() if name not in SLOW}


def run_lesson(path, shorter):
    """Run the code cells of a lesson in order and draw their figures; how many there are.

    Parameters
    ----------
    path : Path
    shorter : dict of str to str
        What is replaced in their code, so that trainings are short.
    """
    cells = [cell.partition("\n")[2] for cell in path.read_text("utf-8").split("# %%")[1:]
             if not cell.startswith(" [markdown]")]
    names, figures = {}, 0
    for number, code in enumerate(cells):
        for long, short in shorter.items():
            code = code.replace(long, short)
        tree = ast.parse(code)
        last = ast.Expression(tree.body.pop().value) if (
            tree.body and isinstance(tree.body[-1], ast.Expr)) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        shown = last and eval(compile(last, f"cell {number}", "eval"), names)
        if hasattr(shown, "savefig"):
            shown.savefig(io.BytesIO())
            figures += 1
    return {"cells": len(cells), "figures": figures}


if __name__ == "__main__":
    found = {**machines.work(*sys.argv[1:]), "facts": machines.facts(),
             "audit": machines.audited(), "doctor": machines.call("doctor", "--json"),
             "limits": limits(sys.argv[1]), "counts": counts()}
    sys.path.insert(0, str(Path(sys.argv[1], "default text")))
    lesson, = Path(machines.__file__).parents[3].glob("notebooks/source/15_*.py")
    with redirect_stdout(io.StringIO()):
        found["lesson"] = run_lesson(lesson, SHORTER)
    print(json.dumps({**found, "pointer": sys.maxsize.bit_length() + 1}))
