"""Time and memory of attention: the compiled kernel, the reference, and PyTorch."""

import re
import time
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from numformer import backend
from numformer.benchmarks.machine import (
    number_of_new_process, processor, reset_peak, resident, tile_blas)
from numformer.benchmarks.side_by_side import medians_in_turns, sgemm_side
from numformer.functional import AttentionPattern
from numformer.functional.attention import scaled_dot_product as reference

CASES = ("12x4x64x32:causal", "8x6x256x64:causal", "1x8x1024x64:causal", "1x8x1024x64:everywhere",
         "1x8x4096x64:causal", "1x8x16384x64:causal", "1x8x16384x64:window=256")
REFERENCE_FITS = 2e9                          # bytes: the reference holds about six arrays of T x S


@dataclass(frozen=True)
class Case:
    """B x H x T x D, and an attention pattern."""

    name: str
    shape: tuple
    pattern: AttentionPattern

    @classmethod
    def parse(cls, name):
        """Read "BxHxTxD:PATTERN", where the pattern is causal, everywhere or window=N.

        Examples
        --------
        >>> Case.parse("1x8x4096x64:window=256").shape
        (1, 8, 4096, 64)
        """
        found = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+):(causal|everywhere|window=\d+)", name)
        if not found or not all(int(size) for size in found.groups()[:4]) or int(found[4]) > 256:
            raise ValueError(f"case {name!r} must read BxHxTxD:PATTERN, with D up to 256 and "
                             "PATTERN causal, everywhere or window=N; for example "
                             "1x8x1024x64:causal.")
        kind = found[5]
        pattern = AttentionPattern(causal=kind == "causal", window=(int(kind[7:]), 0)
                                   if kind.startswith("window") else None)
        return cls(name, tuple(map(int, found.groups()[:4])), pattern)

    @property
    def flops(self):
        """FLOPs of the two products of the forward, without masked pairs; the backward has five."""
        B, H, T, D = self.shape
        first, last = self.pattern.intervals(T, T)
        return 4 * B * H * D * int(np.maximum(last - first, 0).sum(dtype=np.int64))

    def arrays(self):
        """q, k, v and do, float32."""
        return np.random.default_rng(0).standard_normal((4, *self.shape), np.float32)


def kernel_side(case):
    return _side(backend, case)


def reference_side(case):
    return _side(reference, case)


def _side(functions, case):
    q, k, v, do = case.arrays()

    def side():
        started = time.perf_counter()
        _, saved = functions.scaled_dot_product_attention(q, k, v, case.pattern)
        between = time.perf_counter()
        functions.scaled_dot_product_attention_backward(do, saved)
        return {"forward": between - started, "backward": time.perf_counter() - between}

    return side


def torch_side(case):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(backend.get_threads())
    q, k, v, do = (torch.tensor(x) for x in case.arrays())
    for x in (q, k, v):
        x.requires_grad_()
    mask = None
    if case.pattern.window is not None:
        mask = torch.tensor(case.pattern.dense(q.shape[2], k.shape[2]))

    def side():
        started = time.perf_counter()
        o = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=case.pattern.causal)
        between = time.perf_counter()
        o.backward(do)
        q.grad = k.grad = v.grad = None
        return {"forward": between - started, "backward": time.perf_counter() - between}

    return side


SIDES = {"kernel": kernel_side, "reference": reference_side, "torch": torch_side}


def measure(case, memory=True, seconds=6.0):
    """The results of `numformer bench attention` for one case.

    Returns
    -------
    dict
        Times in ms, the sgemm rate of all threads in GFLOP/s and the fraction of it that the kernel
        reached, its speedup over PyTorch, and the memory of each side besides inputs and outputs,
        in bytes. None where a side did not run.
    """
    B, H, T, D = case.shape
    names = (["kernel"] + ["reference"] * (24 * B * H * T * T <= REFERENCE_FITS) + ["torch"]
             * (find_spec("torch") is not None))
    found = medians_in_turns({**{name: SIDES[name](case) for name in names}, "sgemm": sgemm_side()},
                             seconds)
    rate = 1 / found.pop("sgemm")["flop"]
    row = {"case": case.name, "threads": backend.get_threads(), "sgemm_gflops": rate / 1e9,
           "processor": processor(), "blas": tile_blas()}
    for name, prefix in (("kernel", ""), ("reference", "numpy_"), ("torch", "torch_")):
        for part in ("forward", "backward"):
            row[f"{prefix}{part}_ms"] = 1000 * found[name][part] if name in found else None
        row[f"{prefix}extra_bytes"] = extra_bytes(case, name) if memory and name in found else None
    row["forward_of_sgemm"] = case.flops / found["kernel"]["forward"] / rate
    row["backward_of_sgemm"] = 2.5 * case.flops / found["kernel"]["backward"] / rate
    row["times_torch"] = (sum(found["torch"].values()) / sum(found["kernel"].values())
                          if "torch" in found else None)
    return row


def compile_seconds():
    """Seconds to compile the two kernels for float32, without a cache."""
    compiled = backend.compiled_attention()
    started = time.perf_counter()
    for kernel in (compiled.FORWARD, compiled.BACKWARD):
        kernel.compile(np.float32, cached=False, notice=False)
    return time.perf_counter() - started


def extra_bytes(case, name):
    """Peak resident memory of forward and backward in a new process, without inputs and outputs.

    None where the system does not report it (Linux does).
    """
    return number_of_new_process(
        "from numformer.benchmarks import attention; "
        f"attention.print_extra_bytes({case.name!r}, {name!r}, {backend.get_threads()})")


def print_extra_bytes(case, name, threads):
    """Run one side of a case once, after a small warm-up case, and print its memory."""
    case = Case.parse(case)
    with backend.threads(threads):
        SIDES[name](Case("small", (1, 2, 128, case.shape[-1]), case.pattern))()        # warm-up
        side = SIDES[name](case)
        before = resident("VmRSS")
        reset_peak()
        side()
    print(max(0, resident("VmHWM") - before - 4 * 4 * int(np.prod(case.shape))))
