"""A training step compared with PyTorch, eager and compiled, and with JAX."""

import os
import shutil
import time
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import count

import numpy as np

from numformer import backend
from numformer.benchmarks.cases import VOCABULARY, decoder, decoder_config, read_sizes
from numformer.benchmarks.machine import (
    number_of_new_process, processor, reset_peak, resident, torch_blas)
from numformer.benchmarks.side_by_side import in_turns, memory_side, quartiles, sgemm_side
from numformer.data import BlockStream
from numformer.training import Trainer, TrainingConfig

CASES = ("4x4x128:12x64", "6x6x384:16x256")


@dataclass(frozen=True)
class Case:
    """L layers, H heads and width C; batches of B blocks of T tokens of a vocabulary of V."""

    name: str
    L: int
    H: int
    C: int
    B: int
    T: int
    V: int = VOCABULARY

    @classmethod
    def parse(cls, name):
        """Read "LxHxC:BxT" or "LxHxC:BxT:V".

        Examples
        --------
        >>> Case.parse("4x4x128:12x64")
        Case(name='4x4x128:12x64', L=4, H=4, C=128, B=12, T=64, V=65)
        """
        separators = "xx:x:" if name.count(":") == 2 else "xx:x"
        case = cls(name, *read_sizes(name, separators, "LAYERSxHEADSxWIDTH:BATCHxLENGTH, for "
                                     "example 4x4x128:12x64, with :VOCABULARY or without"))
        case.config()                                                # n_heads must divide the width
        return case

    def config(self):
        return decoder_config(self.L, self.H, self.C, self.T, self.V)

    def model(self):
        return decoder(self.config())

    @property
    def flops(self):
        """FLOPs of a step: 6 per weight and token, and the causal half of attention."""
        weights = self.L * 12 * self.C ** 2 + self.V * self.C
        attention = self.L * 3 * 4 * self.C * (self.T + 1) / 2        # forward, twice that backward
        return (6 * weights + attention) * self.B * self.T


def trainer(case, shards=2):
    ids = np.random.default_rng(0).integers(0, case.V, 100 * case.T + 1000)
    settings = TrainingConfig(steps=10**6, batch_size=case.B, shards=shards, learning_rate=1e-4)
    return Trainer(case.model(), BlockStream(ids, case.T, case.B, seed=0), [], settings)


def our_side(case):
    ours = trainer(case)

    def side():
        started = clocks()
        ours.train_step()
        return seconds_since(started)

    return side


def torch_side(case, compiled=False):
    import torch

    from numformer.benchmarks.torch_decoder import torch_decoder

    torch.set_num_threads(backend.get_threads())
    stream, model = trainer(case).stream, torch_decoder(case.model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1,
                                  fused=True)                                          # the fastest
    loss = torch.compile(model.loss) if compiled else model.loss
    steps = count()

    def side():
        started = clocks()
        batch = stream.batch(next(steps))
        optimizer.zero_grad(set_to_none=True)
        loss(torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return seconds_since(started)

    return side


def jax_side(case):
    """JAX computes on all cores that it finds when it is first used."""
    from numformer.benchmarks.jax_decoder import new_state, training_step

    stream, step = trainer(case).stream, training_step(case.config())
    state, steps = [new_state(case.model())], count()

    def side():
        started = clocks()
        batch = stream.batch(next(steps))
        state[0], loss = step(state[0], batch.inputs, batch.targets)
        loss.block_until_ready()
        return seconds_since(started)

    return side


def clocks():
    """Wall time, and CPU time of all threads of this process."""
    return time.perf_counter(), time.process_time()


def seconds_since(started):
    return {name: now - before for name, now, before in zip(("step", "cpu"), clocks(), started)}


SIDES = {"ours": our_side, "torch": torch_side,
         "torch_compiled": partial(torch_side, compiled=True), "jax": jax_side}


def sides_here(compiled=True):
    """The names of the sides that can run here."""
    has_torch = find_spec("torch") is not None
    return ["ours", *["torch"] * has_torch,
            *["torch_compiled"] * bool(has_torch and compiled and shutil.which("g++")),
            *["jax"] * (find_spec("jax") is not None)]


def measure(case, seconds=40.0, compiled=True, memory=True):
    """The results of `numformer bench train` for one case.

    Returns
    -------
    dict
        For numformer ("") and the others ("torch_", "torch_compiled_", "jax_"; None where one did
        not run): milliseconds per step with quartiles, milliseconds of CPU time of a step on one
        thread, and peak memory in bytes; numformer's time, CPU time and memory relative to those of
        each other ("of_", "cpu_of_", "peak_of_"); the BLAS of both; the rates of sgemm and of
        memory on all threads, measured in between, and the fraction of the former that was reached.
    """
    names = sides_here(compiled)
    # long turns, as in training
    found = in_turns({**{name: SIDES[name](case) for name in names}, "sgemm": sgemm_side(),
                      "memory": memory_side()}, seconds, turn=1.0)
    with backend.threads(1):            # new sides: PyTorch compiles for a number of threads
        alone = in_turns({name: SIDES[name](case) for name in names if name != "jax"}, seconds / 2,
                         turn=1.0)
    cpu_seconds = {name: float(np.median(times["cpu"])) for name, times in alone.items()}
    if "jax" in names:
        cpu_seconds["jax"] = cpu_seconds_of_one_core(case, "jax", seconds / 6)
    rate = 1 / float(np.median(found["sgemm"]["flop"]))
    row = {"case": case.name, "threads": backend.get_threads(), "processor": processor(),
           "blas": backend.blas_label(), "torch_blas": torch_blas() if "torch" in names else None,
           "sgemm_gflops": rate / 1e9, "memory_gbytes": 1e-9 / float(np.median(
               found["memory"]["byte"]))}
    for name in SIDES:
        prefix = "" if name == "ours" else f"{name}_"
        times = quartiles(found[name]["step"]) if name in found else None
        row[f"{prefix}step_ms"] = times and 1000 * times["median"]
        row[f"{prefix}quartiles_ms"] = times and [1000 * times["low"], 1000 * times["high"]]
        row[f"{prefix}cpu_ms"] = cpu_seconds.get(name) and 1000 * cpu_seconds[name]
        row[f"{prefix}peak_bytes"] = peak_bytes(case, name) if times and memory else None
        for ratio, quantity in (("of", "step_ms"), ("cpu_of", "cpu_ms"), ("peak_of", "peak_bytes")):
            if name != "ours":
                theirs = row[f"{prefix}{quantity}"]
                row[f"{ratio}_{name}"] = theirs and row[quantity] and row[quantity] / theirs
    row["of_sgemm"] = case.flops / (row["step_ms"] / 1000) / rate
    row["tokens_per_second"] = case.B * case.T / (row["step_ms"] / 1000)
    return row


def cpu_seconds_of_one_core(case, name, seconds):
    """The CPU time of a step in a new process that may use one core only.

    None where cores cannot be chosen (Linux lets them be).
    """
    return number_of_new_process(
        "from numformer.benchmarks import training; "
        f"training.print_cpu_seconds({case.name!r}, {name!r}, {seconds})")


def print_cpu_seconds(case, name, seconds):
    """Run one side on one core, and print the CPU time of its step."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found = in_turns({name: SIDES[name](Case.parse(case))}, seconds, turn=1.0)
    print(float(np.median(found[name]["cpu"])))


def peak_bytes(case, name):
    """Peak memory of three steps in a new process: model, optimizer, and what a step needs.

    None where the system does not report it (Linux does).
    """
    return number_of_new_process(
        "from numformer.benchmarks import training; "
        f"training.print_peak_bytes({case.name!r}, {name!r}, {backend.get_threads()})")


def print_peak_bytes(case, name, threads):
    """Run three steps of one side, after a small case that loads what it needs."""
    with backend.threads(threads):
        SIDES[name](Case.parse("1x1x8:2x4"))()
        before = resident("VmRSS")
        reset_peak()
        side = SIDES[name](Case.parse(case))
        for _ in range(3):
            side()
    print(max(0, resident("VmHWM") - before))


def growth(seconds=4.0):
    """Step times in ms as one size grows: {"B": {4: ms, ...}, "T": ..., "C": ..., "L": ...}."""
    base = dict(L=2, H=2, C=128, B=8, T=64)
    grown = {"B": (8, 16, 32, 64), "T": (64, 128, 256, 512, 1024), "C": (64, 128, 256, 512),
             "L": (2, 4, 8, 16)}
    found = {}
    for size, values in grown.items():
        cases = {value: Case(f"{size}={value}", **{**base, size: value}) for value in values}
        times = in_turns({str(value): our_side(case) for value, case in cases.items()},
                         seconds * len(values))
        found[size] = {value: 1000 * float(np.median(times[str(value)]["step"]))
                       for value in values}
    return found


def slope(times):
    """The exponent p of time ~ size^p, fitted to all sizes but the first, which is mostly overhead.

    Examples
    --------
    >>> round(slope({1: 7.0, 2: 4.0, 4: 16.0, 8: 64.0}), 3)
    2.0
    """
    sizes = sorted(times)[1:]
    return float(np.polyfit(np.log(sizes), np.log([times[size] for size in sizes]), 1)[0])
