"""The audit: registered gradients against the complex step, kernels against the reference."""

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from concurrent.futures import BrokenExecutor

import numpy as np

from numformer import backend
from numformer.specifications import PAIRS, PROBLEMS
from numformer.terminal import did_you_mean
from numformer.verify.compiled import compiled_jobs
from numformer.verify.gradcheck import LAYER_BOUND, MODEL_BOUND, gradcheck
from numformer.verify.registry import LAYERS, LOSSES, MODELS

FEW = 20                                # cases that are not worth the start of processes


def audit(names=(), progress=None, processes=1):
    """Check everything that is registered, or the cases whose name contains one of `names`.

    Parameters
    ----------
    names : sequence of str
        Parts of names, in upper or lower case, as words or as in code: "rms norm", "rms_norm",
        "RMSNorm"; or the name of a function or class, such as "MultiHeadAttention". Empty:
        everything.
    progress : callable, optional
        Called with each row when it is ready, in the order of the rows.
    processes : int
        How many processes work on a long list of cases. Where no process can be started, the cases
        run one after another in this one. A script that asks for more than one needs the line
        ``if __name__ == "__main__":``, as everywhere with `multiprocessing`.

    Returns
    -------
    list of dict
        `name`, `kind` (function, layer, model, loss or kernel), `parameters` and `inputs` (how many
        numbers were differentiated), `max_error`, `bound`, `method`, `ok`, `worst` (tensor and
        index as text), `findings`, `remarks`, `seconds`. A case that raises an exception is a row
        with that finding.

    Raises
    ------
    ValueError
        If one of `names` is none of these.
    ChildProcessError
        If one of the processes is ended from outside, or crashes.

    Examples
    --------
    >>> [row["ok"] for row in audit(["swiglu"])]
    [True]
    """
    wanted = (sorted({n for name in names for n in _of_name(name)}) if names
              else range(len(_jobs())))
    rows = []
    for row in _rows(wanted, processes if len(wanted) > FEW else 1):
        rows.append(row)
        if progress:
            progress(row)
    return rows


def _of_name(name):
    """The numbers of the jobs that somebody means."""
    names = [known for known, _, _ in _jobs()]
    in_code = {case.name: function for function, each in PROBLEMS.items() for case in each.cases}
    if name[:1].isupper():              # each layer is made for its class, in a second together
        in_code |= {case.name: type(case.layer()).__name__ for case in LAYERS + MODELS}
    found = [n for n, known in enumerate(names) if _letters(name) in _letters(known)
             or _letters(name) == _letters(in_code.get(known, ""))]
    if not found:
        choices = [*(known.partition(",")[0] for known in names), *in_code.values()]
        raise ValueError(f"audit: {name!r} is part of no registered name"
                         f"{did_you_mean(name, choices)}; `numformer audit` without a name lists "
                         "them all.")
    return found


def _letters(name):
    """The letters and digits of a name, which are the same in words and in code.

    Examples
    --------
    >>> {_letters(name) for name in ("RMSNorm", "rms_norm", "rms norm")}
    {'rmsnorm'}
    """
    return re.sub(r"[\W_]", "", name).lower()


def _jobs():
    """(name, kind, function that makes the rest of its row) of every case."""
    kinds = (("function", PAIRS, LAYER_BOUND), ("layer", LAYERS, LAYER_BOUND),
             ("model", MODELS, MODEL_BOUND), ("loss", LOSSES, MODEL_BOUND))
    jobs = [(case.name, kind, lambda case=case, bound=bound: checked(
        case.layer(), case.inputs(), case.options, bound, case.condition))
            for kind, cases, bound in kinds for case in cases]
    return jobs + [(name, "kernel", job) for name, job in compiled_jobs()]


def _rows(wanted, processes):
    """The rows of these jobs, in order, each as soon as it and those before it are ready."""
    others, name = set(multiprocessing.active_children()), ""
    pool = _pool(min(processes, len(wanted))) if processes > 1 else None
    if pool is None:
        _end_all_but(others)
        yield from map(_row, wanted)
        return
    try:
        futures = [pool.submit(_row, n) for n in wanted]
        for n, future in zip(wanted, futures):
            name = _jobs()[n][0]
            yield future.result()
    except BrokenExecutor as error:
        raise ChildProcessError(
            f"audit: a process crashed or was ended while it checked {name!r} or a case soon after "
            "it; check these one by one, by name.") from error
    finally:                            # after Ctrl-C, too: nothing goes on in the background
        pool.shutdown(wait=False, cancel_futures=True)
        _end_all_but(others)


def _end_all_but(others):
    for process in set(multiprocessing.active_children()) - others:
        process.terminate()


def _pool(processes):
    """Processes that run jobs; None where there can be none, as in a browser."""
    # A fork has all imports; on other systems, their own libraries may not survive one
    method = "fork" if sys.platform == "linux" else "spawn"
    try:
        from concurrent.futures import ProcessPoolExecutor         # a browser cannot import it

        pool = ProcessPoolExecutor(processes, multiprocessing.get_context(method), _begin)
        pool.submit(int)                # starts them, and a thread that serves them
        return pool
    except (ImportError, RuntimeError, OSError):
        return None


def _begin():
    """In a new process: one thread, as there are others; Ctrl-C is for the one that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("SIGTERM", "SIGHUP"):                # handlers are the parent's
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    backend.set_threads(1)


def _end_with_parent():
    """However it ends: a process of a pool would wait for its next job without end."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _row(n):
    """The row of job n."""
    return row_of(*_jobs()[n])


def row_of(name, kind, job):
    """The row of a case, also of one that raises an exception.

    Parameters
    ----------
    name, kind : str
    job : callable
        Makes the rest of the row.
    """
    started = time.perf_counter()
    try:
        return {"name": name, "kind": kind, **job()}
    except Exception as error:
        return {"name": name, "kind": kind, "parameters": 0, "inputs": 0, "max_error": np.inf,
                "bound": 0.0, "method": "", "ok": False, "worst": "",
                "findings": [f"it raised {type(error).__name__}: {error}"],
                "seconds": time.perf_counter() - started}


def checked(layer, inputs, options=None, bound=LAYER_BOUND, condition=1.0, complex_safe=True):
    """`gradcheck` of a layer as a row, without name and kind."""
    report = gradcheck(layer, inputs, options, bound, condition, complex_safe)
    worst = report.worst
    return {
        "parameters": sum(parameter.data.size for _, parameter in layer.named_parameters()),
        "inputs": sum(x.size for x in inputs if x.dtype.kind == "f"),
        "max_error": worst.error if worst else np.inf, "bound": report.bound,
        "method": report.method, "ok": report.ok,
        "worst": f"{worst.tensor} {worst.index}" if worst else "",
        "findings": report.findings, "remarks": report.remarks, "seconds": report.seconds}
