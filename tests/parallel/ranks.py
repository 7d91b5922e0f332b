"""How tests run a command on several ranks, and where they cannot."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

# As root, in a container, and with more ranks than cores, Open MPI starts on request only.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_rmaps_default_mapping_policy":
            ":oversubscribe"}
PATIENCE = 300                                        # seconds

needs_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None or find_spec("mpi4py") is None,
    reason="needs mpirun (Open MPI or MPICH) and mpi4py")


def environment():
    return {**os.environ, **SETTINGS}


def mpirun(n, *command, **options):
    """Run a command on n ranks; return the CompletedProcess, with its outputs as text."""
    return subprocess.run(["mpirun", "-n", str(n), *map(str, command)], env=environment(),
                          capture_output=True, text=True, timeout=PATIENCE, **options)


def started(n, log, *command):
    """Start a command on n ranks, with its outputs in a file; return the Popen of mpirun."""
    with open(log, "wb") as file:
        return subprocess.Popen(["mpirun", "-n", str(n), *map(str, command)], env=environment(),
                                stdout=file, stderr=subprocess.STDOUT)


def ranks_of(out):
    """The process ids of the ranks that train in a folder, by rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            given = dict(pair.split(b"=", 1) for pair in
                         (process / "environ").read_bytes().split(b"\0") if b"=" in pair)
        except OSError:                               # it has just ended
            continue
        rank = next((given[name] for name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK")
                     if name in given), None)
        if str(out).encode() in words and words[0] != b"mpirun" and rank is not None:
            found[int(rank)] = int(process.name)
    return dict(sorted(found.items()))
