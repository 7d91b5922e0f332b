"""What only a browser's Python can show: limits of time where nothing interrupts, and 32 bits.

`in_pyodide.py FOLDER TEXT` adds them to the results of machines.py, as JSON.
"""

import json
import sys
from pathlib import Path

import numpy as np

import machines

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


if __name__ == "__main__":
    found = {**machines.work(*sys.argv[1:]), "facts": machines.facts(),
             "audit": machines.audited(), "doctor": machines.call("doctor", "--json"),
             "limits": limits(sys.argv[1])}
    print(json.dumps({**found, "pointer": sys.maxsize.bit_length() + 1}))
