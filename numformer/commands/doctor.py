"""numformer doctor: check versions, threads and gradients on this machine.

    numformer doctor

A check fails where numbers are wrong or a required package is missing. What a machine lacks besides
is a note that says what follows from it.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata

import numpy as np

from numformer import backend, functional
from numformer.commands.shared.output import print_json
from numformer.data import BlockStream
from numformer.models import Decoder, DecoderConfig
from numformer.runs import RunFolder, folder_lock, load_checkpoint
from numformer.specifications.attention.random_cases import run as run_attention
from numformer.teaching import grading, isolation
from numformer.teaching.limits import limits_memory, stops
from numformer.terminal import printable
from numformer.training import Trainer, TrainingConfig, train
from numformer.verify.errors import largest, largest_difference

PACKAGES = ("numpy", "scipy", "matplotlib", "threadpoolctl", "tqdm")
BLAS_SECONDS = 0.5                                    # to measure its speed
EXTRAS = ("numba", "mkl", "pooch", "torch", "mpi4py")
CONFIG = DecoderConfig(vocab_size=11, context_length=16, n_layers=2, n_heads=2, d_model=16,
                       positions="rotary", dtype="float64")


def add_arguments(parser):
    pass


def run(arguments):
    checks = [checked(check) for check in (
        python, packages, extras, blas, products, threads, processes, limits, mpi, locks, kernels,
        gradients, training, checkpoints)]
    for check in checks:
        word = "FAIL" if not check["ok"] else "note" if check["note"] else "ok"
        print(f"{word:6}{check['name']:24}{check['found']}")
        if check["note"]:
            print(f"{'':30}{check['note']}")
    ok = all(check["ok"] for check in checks)
    print("all checks passed" if ok else "some checks failed: see FAIL above")
    if arguments.json:
        print_json({"ok": ok, "checks": checks})
    return 0 if ok else 1


def checked(check):
    """The result of a check; it fails if it raises an exception."""
    try:
        return check()
    except Exception as error:
        text = " ".join(str(error).split())
        return result(check.__name__, printable(f"it raised {type(error).__name__}: {text}"), False)


def result(name, found, ok=True, note=""):
    return {"name": name, "ok": ok, "found": found, "note": note}


def python():
    return result("Python", f"{platform.python_version()} on {platform.machine()}",
                  sys.version_info >= (3, 11))


def packages():
    found = {name: version(name) for name in PACKAGES}
    return result("packages", listed(found), None not in found.values())


def extras():
    return result("optional packages", listed({name: version(name) for name in EXTRAS}))


def blas():
    found = [" ".join(filter(None, (library["internal_api"], library["version"],
                                    library.get("architecture"))))
             + f", {library['num_threads']} threads" for library in backend.blas_libraries()]
    with backend.one_blas_thread():
        a = np.ones((768, 768), np.float32)
        rate, end = 0.0, time.perf_counter() + BLAS_SECONDS
        while not rate or time.perf_counter() < end:
            rate = max(rate, 2e-9 * 768 ** 3 / seconds(lambda: a @ a))
    speed = f"{rate:.0f} GFLOP/s"
    built = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {"found": True})
    if not built.get("found"):
        elsewhere = f" ({'; '.join(found)} elsewhere)" if found else ""
        if backend.version_in_use() == "wasm":
            return result("BLAS", f"none in NumPy{elsewhere}; {speed} with WebAssembly")
        return result("BLAS", f"none in NumPy{elsewhere}; {speed}", note="products are slow: its "
                      "own loops stand in for a BLAS")
    if found:
        kind = os.environ.get("OPENBLAS_CORETYPE")
        return result("BLAS", f"{'; '.join(found)}; {speed} on one thread",
                      note=f"OPENBLAS_CORETYPE={kind} decides for which processor" if kind else "")
    return result("BLAS", f"none that threadpoolctl knows; {speed}", note="its threads cannot be "
                  "held: training may be slower, results are as usual")


def products():
    """Which BLAS the kernels use, and why."""
    choice = backend.blas_choice()
    if choice is None:
        return result("products", "WebAssembly's, in place of NumPy's loops, with the same numbers"
                      if backend.version_in_use() == "wasm" else
                      "NumPy's, as there are no kernels")
    return result("products", f"{choice.label} in kernels: {choice.why}")


def threads():
    found = f"{backend.get_threads()} of {os.cpu_count()} cores"
    if backend.can_start_threads():
        return result("threads", found)
    return result("threads", "none can be started", note="loops stand in for them: slower, with "
                  "the same results")


def processes():
    if not grading.has_processes():
        return result("processes", "none can be started", note="`grade`, `check` and `audit` work "
                      "in this one: what they run can end or change it, and audits are slower")
    if not isolation.may_fork():
        return result("processes", "no safe fork", note="`check` calls functions in this process: "
                      "one that ends or crashes Python ends it; `grade` is as usual")
    return result("processes", "can be started and forked")


def limits():
    """What stops a function in `check` and `grade`: of time in this process, and of memory."""
    notes, stop = [], stops()
    if stop is None:
        notes += ["an endless loop in `check` never ends: press Ctrl-C"]
    elif stop != "a timer":
        notes += ["a loop is stopped; one long call of NumPy is not, nor what runs in a thread"]
    if not limits_memory():
        notes += ["none of memory"]
    return result("limits", f"of time by {stop}" if stop else "none of time", note="; ".join(notes))


def mpi():
    """What `mpirun -n N numformer train` would find; nothing of MPI is imported."""
    command, package = shutil.which("mpirun"), version("mpi4py")
    missing = [name for name, found in (
        ("mpirun", command), ("mpi4py", package), ("processes", grading.has_processes() or None))
        if found is None]
    if missing:
        return result("MPI", f"without {' and '.join(missing)}", note="training runs in one "
                      "process; for several machines install Open MPI or MPICH, and numformer[mpi]")
    said = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=20)
    kind = next(iter(said.stdout.splitlines()), "").strip() or "an mpirun without a version"
    return result("MPI", f"{printable(kind)}, mpi4py {package}")


def locks():
    if folder_lock.has_locks():
        return result("locks", "a run has one trainer at a time")
    return result("locks", "none", note="two trainers in one folder would not notice each other")


def kernels():
    """Compiled attention against the NumPy reference, in float32."""
    kernel = backend.compiled_attention()
    if kernel is None:
        why = backend.why_no_kernels() or "Numba can be imported, but they cannot"
        return result("kernels", f"none: {why}", note="the NumPy reference runs: "
                      "slower, and results differ from those of kernels by rounding")
    arrays = np.random.default_rng(0).standard_normal((4, 1, 2, 70, 16)).astype(np.float32)
    compiled, reference = (run_attention(functions, *arrays, functional.CAUSAL, {})
                           for functions in (kernel, functional))
    error = largest([largest_difference(x, y) for x, y in zip(compiled, reference, strict=True)])
    folder, note = cache()
    found = f"largest difference {error:.0e} from the reference"
    return result("kernels", f"{found}; cached in {folder}" if folder else found, error < 1e-4,
                  note)


def cache():
    """(folder of compiled kernels, ""), or (None, what follows from having none)."""
    from numformer.kernels.runtime.cache import find_cache

    folder, why = find_cache()
    return folder, why and f"they are compiled in every process, for 10 to 20 s, as {why}"


def gradients():
    """The directional derivative of a small decoder's loss: backward against complex step."""
    rng = np.random.default_rng(0)
    model = Decoder(CONFIG, rng)
    ids = rng.integers(0, CONFIG.vocab_size, (2, 9))
    batch = ids[:, :-1], ids[:, 1:]
    model.loss_backward(model.loss(batch)[1])
    slope = 0.0
    for parameter in model.parameters():
        direction = rng.standard_normal(parameter.data.shape)
        slope += float((direction * parameter.grad).sum())
        parameter.data = parameter.data + 1e-30j * direction
    expected = float(model.loss(batch)[0].imag) / 1e-30
    error = abs(slope - expected) / abs(expected)
    return result("gradients", f"relative error {error:.0e} against the complex step",
                  error < 1e-12)


def training():
    """Training gives the same bits on any number of threads, where BLAS is held at one."""
    losses = []
    for number in (1, 2, 4):
        with backend.threads(number):
            trainer = small_trainer()
            losses.append([trainer.train_step()["loss"] for _ in range(20)])
    first, last = losses[0][0], losses[0][-1]
    found, same = f"loss {first:.3f} to {last:.3f} in 20 steps", losses[0] == losses[1] == losses[2]
    if same or backend.blas_libraries():
        return result("training", f"{found}, {'identical' if same else 'not the same'} on 1, 2 "
                      "and 4 threads", same and last < first)
    return result("training", f"{found}, equal up to rounding on 1, 2 and 4 threads",
                  bool(np.allclose(losses, losses[0], rtol=1e-9)) and last < first,
                  "the last digits depend on the number of threads, as BLAS cannot be held")


def checkpoints():
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(path)
        folder.open()
        trainer = small_trainer()
        train(trainer, folder, {})
        folder.close()
        arrays, _ = load_checkpoint(folder.checkpoint)
    same = all(np.array_equal(arrays[f"model.{name}"], array)
               for name, array in trainer.model.state_dict().items())
    return result("checkpoints", "written and read back", same)


def small_trainer():
    stream = BlockStream(np.arange(500) % CONFIG.vocab_size, CONFIG.context_length, batch_size=4,
                         seed=0)
    return Trainer(Decoder(CONFIG, np.random.default_rng(0)), stream, [],
                   TrainingConfig(steps=20, shards=4, warmup_steps=2))


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def listed(found):
    return ", ".join(f"{name} {number or 'not installed'}" for name, number in found.items())


def seconds(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
