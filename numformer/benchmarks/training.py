"""A training step compared with PyTorch, eager and compiled, and a breakdown of its time."""

import cProfile
import pstats
import shutil
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import numformer
from numformer import backend
from numformer.benchmarks.cases import VOCABULARY, decoder, decoder_config, read_sizes
from numformer.benchmarks.side_by_side import in_turns, memory_side, quartiles, sgemm_side
from numformer.data import BlockStream
from numformer.training import Trainer, TrainingConfig

CASES = ("4x4x128:12x64", "6x6x384:16x256")


@dataclass(frozen=True)
class Case:
    """L layers, H heads and width C; batches of B blocks of T characters."""

    name: str
    L: int
    H: int
    C: int
    B: int
    T: int

    @classmethod
    def parse(cls, name):
        """Read "LxHxC:BxT".

        Examples
        --------
        >>> Case.parse("4x4x128:12x64")
        Case(name='4x4x128:12x64', L=4, H=4, C=128, B=12, T=64)
        """
        case = cls(name, *read_sizes(name, "xx:x", "LAYERSxHEADSxWIDTH:BATCHxLENGTH, for example "
                                     "4x4x128:12x64"))
        case.config()                                                # n_heads must divide the width
        return case

    def config(self):
        return decoder_config(self.L, self.H, self.C, self.T)

    def model(self):
        return decoder(self.config())

    @property
    def flops(self):
        """FLOPs of a step: 6 per weight and token, and the causal half of attention."""
        weights = self.L * 12 * self.C ** 2 + VOCABULARY * self.C
        attention = self.L * 3 * 4 * self.C * (self.T + 1) / 2        # forward, twice that backward
        return (6 * weights + attention) * self.B * self.T


def trainer(case, shards=2):
    ids = np.random.default_rng(0).integers(0, VOCABULARY, 100 * case.T + 1000)
    settings = TrainingConfig(steps=10**6, batch_size=case.B, shards=shards, learning_rate=1e-4)
    return Trainer(case.model(), BlockStream(ids, case.T, case.B, seed=0), [], settings)


def our_side(case):
    ours = trainer(case)

    def side():
        started = time.perf_counter()
        ours.train_step()
        return {"step": time.perf_counter() - started}

    return side


def torch_side(case, compiled=False):
    import torch

    from numformer.benchmarks.torch_decoder import torch_decoder

    torch.set_num_threads(backend.get_threads())
    stream, model = trainer(case).stream, torch_decoder(case.model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.99), weight_decay=0.1,
                                  fused=True)                                          # the fastest
    loss = torch.compile(model.loss) if compiled else model.loss
    steps = iter(range(10**9))

    def side():
        started = time.perf_counter()
        batch = stream.batch(next(steps))
        optimizer.zero_grad(set_to_none=True)
        loss(torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"step": time.perf_counter() - started}

    return side


def measure(case, seconds=40.0, compiled=True):
    """The results of `numformer bench train` for one case.

    Returns
    -------
    dict
        Milliseconds per step with quartiles, for numformer and for PyTorch eager and compiled (None
        where that did not run); time relative to PyTorch; the rates of sgemm and of memory on all
        threads, measured in between, and the fraction of the former that was reached.
    """
    sides = {"ours": our_side(case)}
    if find_spec("torch") is not None:
        sides["torch"] = torch_side(case)
        if compiled and shutil.which("g++"):                          # needed by torch.compile
            sides["torch_compiled"] = torch_side(case, compiled=True)
    # long turns, as in training
    found = in_turns({**sides, "sgemm": sgemm_side(), "memory": memory_side()}, seconds, turn=1.0)
    rate = 1 / float(np.median(found["sgemm"]["flop"]))
    row = {"case": case.name, "threads": backend.get_threads(), "sgemm_gflops": rate / 1e9,
           "memory_gbytes": 1e-9 / float(np.median(found["memory"]["byte"]))}
    for name, prefix in (("ours", ""), ("torch", "torch_"), ("torch_compiled", "torch_compiled_")):
        times = quartiles(found[name]["step"]) if name in found else None
        row[f"{prefix}step_ms"] = times and 1000 * times["median"]
        row[f"{prefix}quartiles_ms"] = times and [1000 * times["low"], 1000 * times["high"]]
    for theirs in ("torch", "torch_compiled"):
        row[f"of_{theirs}"] = row[f"{theirs}_step_ms"] and row["step_ms"] / row[f"{theirs}_step_ms"]
    row["of_sgemm"] = case.flops / (row["step_ms"] / 1000) / rate
    row["tokens_per_second"] = case.B * case.T / (row["step_ms"] / 1000)
    return row


def breakdown(case, steps=20):
    """The time of a step in ms by function, for one shard of half the batch on one thread.

    The profiler adds about 5%. Time outside of `functional/` and `kernels/` is "rest": layers, sums
    of gradients, Python.
    """
    half = Case(case.name, case.L, case.H, case.C, max(1, case.B // 2), case.T)
    with backend.threads(1):
        ours = trainer(half, shards=1)
        for _ in range(3):
            ours.train_step()
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(steps):
            ours.train_step()
        profile.disable()
    root, times = Path(numformer.__file__).parent, {}
    total = 0.0
    for (file, _, name), (_, _, _, cumulative, _) in pstats.Stats(profile).stats.items():
        if name == "train_step":
            total = cumulative
        elif (Path(file).is_relative_to(root) and hasattr(numformer.functional, name)
              and Path(file).relative_to(root).parts[0] in ("functional", "kernels")):
            times[name] = max(cumulative, times.get(name, 0.0))    # a kernel may call its reference
    times = {name: 1000 * seconds / steps for name, seconds in sorted(times.items(),
                                                                      key=lambda item: -item[1])}
    return {**times, "rest": 1000 * total / steps - sum(times.values())}


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
