"""Machines that lack something, and the same work on each.

`python tests/commands/environments/machines.py NAME FOLDER TEXT` takes away from Python what the
machine NAME lacks, works in FOLDER, trains on the file TEXT and prints the results as JSON.
"""

import io
import json
import os
import signal
import sys
import sysconfig
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

SIZES = ["--n-layers", "1", "--n-heads", "2", "--d-model", "16", "--context-length", "16",
         "--batch-size", "4", "--warmup-steps", "2", "--shards", "4", "--threads", "2"]
SOLUTION = "import numpy as np\n\n\ndef softmax(z):\n    e = np.exp(z - z.max(-1, " \
           "keepdims=True))\n    return e / e.sum(-1, keepdims=True)\n"


def browser():
    """Pyodide: no Numba, no threads, no processes, no locks; and no BLAS that can be held."""
    missing_modules("numba", "llvmlite", "fcntl", "resource", "_multiprocessing",
                    "_posixsubprocess")
    missing(os, "fork", "register_at_fork", "killpg", "getuid", "sched_getaffinity")
    sysconfig.get_config_vars()                       # needs the platform's true name, once
    sys.platform = "emscripten"
    threading.Thread.start = refused
    import threadpoolctl

    threadpoolctl.ThreadpoolController.__init__ = refused


def windows():
    """No fork, no limits, fewer signals; a lock of its own kind, which this simulation leaves out.

    The name of the platform stays, as the standard library chooses what it imports by it.
    """
    missing_modules("fcntl", "resource")
    missing(os, "fork", "forkpty", "register_at_fork", "killpg", "getpgid", "setsid", "getuid",
            "geteuid", "sched_getaffinity", "mkfifo", "waitid", "O_NONBLOCK", "O_NOFOLLOW")
    missing(signal, "SIGHUP", "SIGALRM", "setitimer")
    from numformer import backend

    backend.use("numpy")                              # the kernels are as everywhere


def missing_modules(*names):
    sys.modules.update(dict.fromkeys(names))          # an import of None raises ImportError


def missing(module, *names):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def refused(*_, **options):
    raise RuntimeError("can't start new thread")


def work(folder, text):
    """Results of training, resuming, checking and grading, all of them on the NumPy reference."""
    import numpy as np

    from numformer import check
    from numformer.layers import LayerNorm
    from numformer.verify import gradcheck

    run, exercises = Path(folder) / "run", Path(folder) / "exercises"
    found = {
        "train": call("train", "--data", text, "--out", run, "--steps", 4, "--stop-at", 3, *SIZES),
        "resume": call("train", "--resume", "--out", run), "eval": call("eval", run),
        "sample": call("sample", run, "--tokens", 8),
        "exercises": call("exercises", "1", "--out", exercises)}
    (exercises / "student" / "01_softmax.py").write_text(SOLUTION)
    names = {}
    exec(SOLUTION, names)
    rng = np.random.default_rng(0)
    return {
        **found, "grade": call("grade", exercises / "student"),
        "right": bool(check("softmax", names["softmax"])), "wrong": bool(check("softmax", np.exp)),
        "gradcheck": gradcheck(LayerNorm(4, dtype="float64"), [rng.standard_normal((2, 4))]).ok}


def audited():
    """Whether the rows of an audit are right, of two processes where there are none."""
    from numformer.verify import audit

    audit.FEW = 0
    processes = 2 if sys.platform == "emscripten" else 1
    return [row["ok"] for row in audit.audit(["relu"], processes=processes)]


def call(*argv):
    """(exit status, stdout) of a verb."""
    from numformer.cli import main

    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        status = main([str(word) for word in argv])
    return [status, out.getvalue()]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    results = work(*sys.argv[2:])
    print(json.dumps({**results, "audit": audited(), "doctor": call("doctor", "--json")}))
