"""Machines that lack something, and the same work on each.

`python tests/commands/environments/machines.py NAME FOLDER TEXT` takes away from Python what the
machine NAME lacks, works in FOLDER, trains on the file TEXT and prints the results as JSON; without
a folder, the facts of a browser's machine alone.
"""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import warnings
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

SIZES = ["--n-layers", "1", "--n-heads", "2", "--d-model", "16", "--context-length", "16",
         "--batch-size", "4", "--warmup-steps", "2", "--shards", "4", "--threads", "2"]
SOLUTION = "import numpy as np\n\n\ndef softmax(z):\n    e = np.exp(z - z.max(-1, " \
           "keepdims=True))\n    return e / e.sum(-1, keepdims=True)\n"


def browser():
    """Pyodide: no Numba, threads, processes, timers and documentation texts; locks that do nothing;
    no BLAS that can be held. A test compares its `facts` with those of the real one.
    """
    import fcntl

    missing_modules("numba", "llvmlite", "resource", "_multiprocessing", "pydoc_data")
    missing(os, "sched_getaffinity", "mkfifo", "openpty", "forkpty")
    missing(signal, "setitimer", "alarm")
    os.fork = subprocess.Popen.__init__ = not_supported
    fcntl.flock = lambda *_: None
    sysconfig.get_config_vars()                       # needs the platform's true name, once
    sys.platform = "emscripten"
    threading.Thread.start = refused
    without_steps()
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
    without_steps()
    from numformer import backend

    backend.use("numpy")                              # the kernels are as everywhere


def without_steps():
    """Nothing stops a loop before Python 3.12, and a warning says so."""
    if not hasattr(sys, "monitoring"):
        warnings.filterwarnings("ignore", "the limit of .* does not hold", RuntimeWarning)


def facts():
    """What happens on a machine without processes when it is asked for what a browser lacks."""
    from numformer import backend
    from numformer.data import load_corpus
    from numformer.runs.folder_lock import has_locks
    from numformer.teaching.limits import limits_memory

    return {
        "fork": tried(os.fork), "subprocess": tried(lambda: subprocess.run(["python"])),
        "thread": tried(threading.Thread(target=int).start), "can fork": backend.can_fork(),
        "locks": has_locks(), "limits of memory": limits_memory(),
        "default text": tried(load_corpus),
        "modules": {name: tried(lambda: import_module(name)) for name in (
            "numba", "fcntl", "resource", "_multiprocessing", "_posixsubprocess", "ctypes", "mmap",
            "multiprocessing", "select", "faulthandler")},
        "names": {f"{module.__name__}.{name}": hasattr(module, name) for module, name in (
            (os, "fork"), (os, "register_at_fork"), (os, "killpg"), (os, "getuid"), (os, "waitid"),
            (os, "sched_getaffinity"), (os, "mkfifo"), (os, "forkpty"), (os, "O_NOFOLLOW"),
            (signal, "setitimer"), (signal, "alarm"), (signal, "SIGALRM"), (signal, "SIGHUP"))}}


def tried(function):
    """"works", or the name of the exception."""
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return "works"


def missing_modules(*names):
    sys.modules.update(dict.fromkeys(names))          # an import of None raises ImportError


def missing(module, *names):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def refused(*_, **options):
    raise RuntimeError("can't start new thread")


def not_supported(*_, **options):
    raise OSError(errno.ENOSYS, "Function not implemented")


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
    if not sys.argv[2:]:
        sys.exit(print(json.dumps(facts())))
    results = work(*sys.argv[2:])
    print(json.dumps({**results, "audit": audited(), "doctor": call("doctor", "--json")}))
