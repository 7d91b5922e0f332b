"""`mpirun -n N numformer train`: what the ranks of MPI do together, and what rank 0 does alone.

Rank 0 prints, and writes the run's folder. Without mpirun a process is `Alone`, and nothing of MPI
is imported.
"""

import hashlib
import json
import os
import socket
import sys
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.parallel.lifeline import Lifeline
from numformer.commands.shared.output import SampleNotFinite
from numformer.commands.shared.process import Messages, launched_rank
from numformer.training import CountingTrainer, NotFinite

MORE_SIGNALS = ("SIGUSR1",)             # mpirun passes it on to all ranks; SIGTERM it does not


def start():
    """The `Ranks` of this process if mpirun has started it, else `Alone`.

    Raises
    ------
    UsageError
        If mpi4py is missing, or finds no MPI.
    """
    if launched_rank() is None:
        return Alone()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError("mpirun has started this process, but mpi4py cannot be used "
                         f"({error}); install it with: pip install 'numformer[mpi]'") from None
    return Ranks(MPI.COMM_WORLD)


def check_same_arguments(argv):
    """Check that all ranks run the same verb with the same options; --threads may differ.

    This comes before anything is parsed: a rank that ended by itself would leave others waiting.

    Raises
    ------
    UsageError
        If they do not.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return                                        # `start` says so where it matters
    comm = MPI.COMM_WORLD
    words = [str(word) for word in argv]
    if "--threads" in words[:-1]:
        at = words.index("--threads")
        del words[at:at + 2]
    found = comm.allgather([word for word in words if not word.startswith("--threads=")])
    other = next((rank for rank, given in enumerate(found) if given != found[0]), None)
    if other is None:
        return
    first, second = next(pair for pair in zip_longest(
        found[0], found[other], fillvalue="nothing") if pair[0] != pair[1])
    raise UsageError(f"rank {other} has {second} where rank 0 has {first}; give all ranks the same "
                     "verb and options.")


class Alone:
    """One process, without MPI."""

    first, signals = True, ()

    def threads(self, wanted):
        return wanted

    def together(self):
        return nullcontext()

    def same(self, value):
        return value

    def folder(self, made):
        return made()

    def join(self, trainer, facts):
        pass

    def guard(self, folder, explain, resume):
        return nullcontext()


class Ranks:
    """The ranks that mpirun has started.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    """

    signals = MORE_SIGNALS

    def __init__(self, comm):
        self.comm, self.first = comm, comm.rank == 0
        places = comm.allgather((socket.gethostname(), _cores()))
        host, cores = places[comm.rank]
        self.one_machine = all(other == host for other, _ in places)
        # How many ranks may use some core of this one, itself included
        self.neighbours = sum(other == host and bool(used & cores) for other, used in places)

    def threads(self, wanted):
        """How many threads this rank uses.

        By default its share of the cores that it is bound to: other ranks may be bound to them too.
        """
        usable = backend.get_threads()
        if wanted is None:
            return max(1, usable // self.neighbours)
        if self.first and wanted * self.neighbours > usable:
            print(f"note: --threads {wanted} is more than there are cores for a rank: {usable} for "
                  f"{self.neighbours} of them; fewer threads, or another binding of mpirun, is "
                  "faster", file=sys.stderr)
        return wanted

    @contextmanager
    def together(self):
        """Inside, an error of one rank is one of all: the lowest rank that has one reports it."""
        error = None
        try:
            yield
        except Exception as found:
            error = found
        found = self.comm.allgather(None if error is None else f"{type(error).__name__}: {error}")
        failed = [rank for rank, text in enumerate(found) if text]
        if failed and self.comm.rank == failed[0]:
            restore_messages()
        if error is not None:
            raise error
        if failed:
            raise UsageError(f"rank {failed[0]}: {found[failed[0]]}")

    def same(self, value):
        """The value that rank 0 has."""
        return self.comm.bcast(value, root=0)

    def folder(self, made):
        """The folder that rank 0 makes; elsewhere one of the same path that is not written to."""
        folder, path = None, None
        try:
            if self.first:
                folder = made()
                path = str(folder.path)
        finally:
            path = self.same(path)                    # None after an error: see `together`
        return NoFolder(path or ".") if folder is None else folder

    def join(self, trainer, facts):
        """Let a trainer run its shards on all ranks.

        Raises
        ------
        UsageError
            If the ranks have other options, data or states, or there are more of them than shards.
        """
        if isinstance(trainer, CountingTrainer):
            return                                    # all ranks count the same
        described = {name: value for name, value in facts.items() if name != "blas"}
        text = json.dumps([described, trainer.step], sort_keys=True)
        found = self.comm.allgather(hashlib.sha256(text.encode()).hexdigest())
        others = [rank for rank, digest in enumerate(found) if digest != found[0]]
        if others:
            raise UsageError(f"rank {others[0]} has other options or data than rank 0; give all "
                             "machines the same files and the same version.")
        from numformer.training.parallel.ranks import RankShards

        try:
            trainer.parallel = RankShards(trainer.model, trainer.optimizer, trainer.config,
                                        self.comm)
        except ValueError as error:
            raise UsageError(str(error)) from None

    @contextmanager
    def guard(self, folder, explain, resume):
        """Inside, a rank that fails or dies ends all others within seconds.

        Parameters
        ----------
        folder : RunFolder or NoFolder
        explain : callable
            The line to print for an error.
        resume : str
            The command that continues the run.
        """
        lifeline = Lifeline(self.comm, self.one_machine, resume)
        try:
            yield
        except BaseException as error:
            if isinstance(error, NotFinite) and not isinstance(error, SampleNotFinite):
                lifeline.close()                      # all ranks have the same numbers
                raise
            lifeline.report(f"numformer: {explain(error)}")
            os._exit(130 if isinstance(error, KeyboardInterrupt) else 1)
        lifeline.close()


class NoFolder:
    """What a rank other than 0 has in place of a `RunFolder`: it takes part in saving, no more.

    Parameters
    ----------
    path : str
    """

    def __init__(self, path):
        self.path = Path(path)
        self.checkpoint, self.best = (self.path / f"{name}.safetensors"
                                      for name in ("checkpoint", "best"))
        self.snapshots = SimpleNamespace(save=lambda step, model: None,
                                         begin=lambda count: None, count=lambda: None)

    def save(self, path, trainer, facts):
        trainer.check_finite()
        trainer.state_dict()                          # rank 0 gathers it from all

    def open(self, step=0, evaluated_at=None):
        pass

    def append(self, metrics):
        pass

    def describe(self, facts):
        pass

    def read_metrics(self):
        return []

    def close(self):
        pass


def _cores():
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def restore_messages():
    """Write messages to the standard error stream again."""
    if launched_rank():
        sys.stderr = Messages(open(2, "w", encoding="utf-8", closefd=False))
