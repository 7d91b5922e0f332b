"""numformer doctor: check versions, threads, kernels, gradients and checkpoints."""

import os
import platform
import sys
import tempfile
import time
from importlib import metadata

import numpy as np
from threadpoolctl import threadpool_info

from numformer import backend, functional
from numformer.commands.shared.output import print_json
from numformer.models import Decoder, DecoderConfig
from numformer.data import BlockStream
from numformer.training import RunFolder, Trainer, TrainingConfig, load_checkpoint, train
from numformer.verify.registry.attention_cases import run as run_attention

PACKAGES = ("numpy", "scipy", "matplotlib", "numba", "safetensors", "threadpoolctl", "tqdm")
EXTRAS = ("pooch", "scikit-learn", "torch")
CONFIG = DecoderConfig(vocab_size=11, context_length=16, n_layers=2, n_heads=2, d_model=16,
                       positions="rotary", dtype="float64")


def add_arguments(parser):
    pass


def run(arguments):
    checks = [check() for check in (python, packages, extras, blas, threads, kernels, gradient,
                                    same_on_any_threads, checkpoint)]
    for check in checks:
        print(f"{'ok  ' if check['ok'] else 'FAIL'}  {check['name']:24}{check['found']}")
    ok = all(check["ok"] for check in checks)
    print("all checks passed" if ok else "some checks failed: see FAIL above")
    if arguments.json:
        print_json({"ok": ok, "checks": checks})
    return 0 if ok else 1


def python():
    return dict(name="Python", ok=sys.version_info >= (3, 11), found=f"{platform.python_version()} "
                f"on {platform.machine()}")


def packages():
    found = {name: version(name) for name in PACKAGES}
    return dict(name="packages", ok=None not in found.values(), found=listed(found))


def extras():
    return dict(name="optional packages", ok=True,
                found=listed({name: version(name) for name in EXTRAS}))


def blas():
    found = [f"{library['internal_api']} {library['version']}, {library['num_threads']} threads"
             for library in threadpool_info() if library["user_api"] == "blas"]
    with backend.one_blas_thread():
        a = np.ones((768, 768), np.float32)
        rate = max(2e-9 * 768 ** 3 / seconds(lambda: a @ a) for _ in range(20))
    return dict(name="BLAS", ok=bool(found), found=f"{'; '.join(found) or 'unknown'}; {rate:.0f} "
                "GFLOP/s on one thread")


def threads():
    return dict(name="threads", ok=True, found=f"{backend.get_threads()} of {os.cpu_count()} cores")


def kernels():
    """Compiled attention against the NumPy reference, in float32."""
    kernel = backend.compiled_attention()
    if kernel is None:
        return dict(name="kernels", ok=True, found="none: Numba is not installed, so the NumPy "
                    "reference runs")
    arrays = np.random.default_rng(0).standard_normal((4, 1, 2, 70, 16)).astype(np.float32)
    compiled, reference = (run_attention(functions, *arrays, functional.CAUSAL, {})
                           for functions in (kernel, functional))
    error = max(float(np.abs(x - y).max()) for x, y in zip(compiled, reference))
    where = described_cache()
    return dict(name="kernels", ok=error < 1e-4, found=f"largest difference {error:.0e} from the "
                f"reference; {where}")


def described_cache():
    from numformer.kernels.runtime.cache import find_cache

    folder, why = find_cache()
    return f"compiled in every process, as {why}" if folder is None else f"cached in {folder}"


def gradient():
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
    return dict(name="gradients", ok=error < 1e-12, found=f"relative error {error:.0e} against the "
                "complex step")


def same_on_any_threads():
    """Training gives the same bits on any number of threads."""
    losses = []
    for number in (1, 2, 4):
        with backend.threads(number):
            trainer = small_trainer()
            losses.append([trainer.train_step()["loss"] for _ in range(20)])
    ok = losses[0] == losses[1] == losses[2] and losses[0][-1] < losses[0][0]
    return dict(name="training", ok=ok, found=f"loss {losses[0][0]:.3f} to {losses[0][-1]:.3f} in "
                "20 steps, identical on 1, 2 and 4 threads")


def checkpoint():
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(path)
        folder.open()
        trainer = small_trainer()
        train(trainer, folder, {})
        folder.close()
        arrays, _ = load_checkpoint(folder.checkpoint)
    same = all(np.array_equal(arrays[f"model.{name}"], array)
               for name, array in trainer.model.state_dict().items())
    return dict(name="checkpoints", ok=same, found="written and read back")


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
