"""What a benchmark runs on: the processor, the BLAS of each side, and memory at its peak."""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

from numformer import backend


def processor():
    """The processor's name and its widest vectors, as far as the system tells."""
    try:
        facts = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    name = re.search(r"model name\s*: (.*)", facts)
    widest = next((word for flag, word in (("avx512f", ", AVX-512"), ("avx2", ", AVX2"))
                   if re.search(rf"\b{flag}\b", facts)), "")
    return f"{name[1] if name else platform.machine()}{widest}"


def description():
    """One line: processor, cores and threads."""
    return f"{processor()}; {backend.get_threads()} threads"


def tile_blas():
    """The library of the products in attention, which are small tiles."""
    choice = backend.blas_choice()
    return backend.blas_label() if choice is None else choice.tile_label


def torch_blas():
    """The BLAS that PyTorch was built with."""
    import torch

    found = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    return found[1] if found else "unknown"


def resident(key):
    """Bytes of this process now ("VmRSS"), or at the peak ("VmHWM"). Linux alone reports them."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(key))


def reset_peak():
    """Let the peak begin at what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def number_of_new_process(program):
    """The number that a Python program prints last; None if it fails."""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return (json.loads(result.stdout.splitlines()[-1]) if result.returncode == 0 and result.stdout
            else None)
