"""Runs of tests in child processes: for tests/mutate.py, which is a plugin of pytest.

The parent has imported and collected everything and runs no test itself. Each run is a fork, so
that nothing of a run reaches the next one: no cache, no thread, no changed module.
"""

import functools
import gc
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest

PASSED, FAILED, NOT_RUN = 0, 1, 2       # exit statuses of a child
SECONDS, TIMES = 5, 6                   # a test may take 5 s of CPU time + 6 times what is usual
MEMORY = 4 << 30                        # bytes that a run may allocate
STUCK = 300                             # seconds without any computation: a deadlock


class Child:
    """Tests in a forked process, after `prepare()` has changed something there."""

    def __init__(self, tests, prepare):
        self.folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        self.cpu, self.moved = 0, time.monotonic()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = NOT_RUN
            try:
                self._leave_alone()
                prepare()
                status = FAILED
                status = self.run(tests)
            except BaseException as error:
                self.say(f"{type(error).__name__}: {error}")
            finally:
                os._exit(status)

    def _leave_alone(self):
        """No output, a folder for temporary files, limited memory, no core dump."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.folder)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self.folder)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def say(self, words):
        """Leave a line for the parent: which test failed."""
        Path(self.folder, "words").write_text(words)

    def result(self, status):
        """("survives", ""), ("noticed", test), ("timeout", ""), ("signal", name), ..."""
        words = self.folder / "words"
        words = words.read_text() if words.exists() else ""
        self.close()
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            late = number == signal.SIGXCPU or self.is_stuck()
            return ("timeout", "") if late else ("signal", signal.Signals(number).name)
        if os.WEXITSTATUS(status) == NOT_RUN:
            raise RuntimeError(f"the change could not be made: {words}")
        return ("survives" if os.WEXITSTATUS(status) == PASSED else "noticed"), words

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_stuck(self):
        """Whether it has computed nothing for long."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            cpu = int(fields[11]) + int(fields[12])
        except OSError:                 # it has ended
            cpu = self.cpu
        if cpu != self.cpu:
            self.cpu, self.moved = cpu, time.monotonic()
        return time.monotonic() - self.moved > STUCK


class Run(Child):
    """Tests until one fails.

    The CPU time of a test is limited by `patience` and by its usual time, `seconds[test]`. The
    time of the clock does not count: the machine may be busy with other work, or pause.
    """

    def __init__(self, tests, prepare, seconds, patience):
        self.seconds, self.patience = seconds, patience
        super().__init__(tests, prepare)

    def run(self, tests):
        for test, following in zip(tests, [*tests[1:], None]):
            limit = SECONDS + TIMES * self.seconds[test.nodeid]
            limit = time.process_time() + self.patience * limit
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, resource.RLIM_INFINITY))
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if test.session.testsfailed:
                self.say(test.nodeid)
                return FAILED
        return PASSED


class Recording(Child):
    """The CPU time of each test, and which of them run a line: {id: seconds}, {file: {line: ids}}.

    Each test is set up anew, without what the others left in caches.
    """

    def __init__(self, tests, prepare, files):
        self.files = files
        super().__init__(tests, prepare)

    def run(self, tests):
        from coverage import Coverage

        caches, seconds = _caches(tests), {}
        coverage = Coverage(data_file=None, config_file=False, include=self.files)
        coverage.start()
        for test in tests:
            for cache in caches:
                cache.cache_clear()
            started = time.process_time()
            coverage.switch_context(test.nodeid)
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)
            seconds[test.nodeid] = time.process_time() - started
            if test.session.testsfailed:
                self.say(f"{test.nodeid}\n{test.session.last_failure}")
                return FAILED
        coverage.stop()
        with warnings.catch_warnings(action="ignore"):        # perhaps none of the files was run
            data = coverage.get_data()
        lines = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
        Path(self.folder, "recorded").write_bytes(pickle.dumps((seconds, lines)))
        return PASSED

    def result(self, status):
        file = self.folder / "recorded"
        recorded = pickle.loads(file.read_bytes()) if file.exists() else None
        kind, words = super().result(status)
        if kind != "survives":
            pytest.exit(f"without any change: {kind} {words}", returncode=1)
        return recorded


def _caches(tests):
    """The caches of functions in the package and in the tests, apart from those of kernels."""
    modules = {test.module.__name__ for test in tests if hasattr(test, "module")}
    return [thing for thing in gc.get_objects()
            if isinstance(thing, functools._lru_cache_wrapper)
            and (thing.__module__ in modules or thing.__module__.startswith("numformer."))
            and not thing.__module__.startswith(("numformer.kernels", "numformer.backend"))]


def run_children(jobs, start, n):
    """Yield (job, result) of each job as it ends, `n` at a time; `start(job)` returns a child."""
    jobs, running = iter(jobs), []
    try:
        while True:
            while len(running) < n and (job := next(jobs, None)) is not None:
                running.append((start(job), job))
            if not running:
                return
            for child, job in list(running):
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    running.remove((child, job))
                    yield job, child.result(status)
                elif child.is_stuck():
                    os.kill(child.pid, signal.SIGKILL)
            time.sleep(0.005)
    finally:
        for child, _ in running:        # after Ctrl-C
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            child.close()
