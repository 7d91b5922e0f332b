"""Would a test notice? Change one small thing in the code at a time, and run tests until one fails.

    python tests/mutate.py                         all subjects: CPU hours
    python tests/mutate.py functional/softmax.py   some files, below numformer/
    python tests/mutate.py --kernels               the kernels as plain Python, in a separate run
    python tests/mutate.py --out FOLDER            keep all results there, and go on from them

For developers; not part of the test suite; needs Linux and the package `coverage`. A mutant is one
function in which one operator, comparison, constant or condition is changed. First, every test runs
once without any change, and the lines that it executes are recorded. Then each mutant runs the
tests that execute the changed statement, the quick ones first, until one fails. The results:

    noticed    a test failed
    survives   all tests passed: a gap in the tests, or a change that makes no difference
    unreached  no test executes the statement
    timeout    a test took many times its usual CPU time, twice (the second time alone, and with
               more patience): an endless loop, which counts as noticed
    signal     the process was ended by the system, twice: it crashed, or needed too much memory

The program is a plugin of pytest, which imports tests and every conftest.py as it always does. Each
mutant is a forked process in which the code object of its function is replaced.
"""

import argparse
import gc
import glob
import hashlib
import json
import os
import pickle
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutation_runs import Recording, Run, run_children
from mutator import PACKAGE, change_nothing, mutants_of

ROOT, TESTS = PACKAGE.parent, PACKAGE.parent / "tests"
SUBJECTS = [
    "functional/recurrent/*.py", "functional/experts/*.py", "functional/attention/*.py",
    "functional/**/*.py", "data/batches/*.py", "data/tokenizers/*.py", "data/noise/*.py",
    "generation/*.py", "layers/recurrent/*.py", "layers/attention/*.py", "layers/**/*.py",
    "models/**/*.py", "training/optimizer.py", "training/optimizers.py", "training/muon.py",
    "training/clipping.py", "training/schedules.py", "training/loop.py", "training/evaluation.py",
    "training/counting_trainer.py", "minimal.py", "parameter.py", "flat_parameters.py",
    "analysis/**/*.py", "data/corpora/*.py", "data/world/*.py"]
SUITE = [*(f"tests/{name}" for name in (
    "functional", "layers", "models", "generation", "data", "analysis", "test_minimal.py",
    "training/test_flat_parameters.py", "verify/test_contract.py", "teaching/test_check.py",
    "training/test_counting_trainer.py", "training/test_evaluation.py", "training/test_loop.py",
    "training/test_optimizers.py", "training/test_schedules.py",
    "training/test_torch_witness_training.py", "training/test_training.py")),
    *(f"numformer/{name}" for name in (
        "functional", "layers", "models", "generation", "data", "training", "analysis",
        "parameter.py"))]
KERNELS = ["kernels/*.py", "kernels/attention/*.py", "kernels/decoding/*.py",
           "kernels/runtime/*.py"]
NOT_MUTATED = ["blas.py", "blas_speed.py", "cache.py", "compile.py", "launch.py", "mkl.py",
               "shapes.py", "vectors.py", "workspace.py"]     # no mathematics, or not Python's
SUITE_OF_KERNELS = ["tests/kernels/plain/plain_*.py", "tests/kernels/test_compiled_*.py",
                    "tests/kernels/test_decoding_step.py"]     # the first replace what is no Python
PATIENCE, MORE_PATIENCE = 1, 4


class Mutation:
    """A plugin of pytest: what runs in place of its own loop over the collected tests."""

    def __init__(self, arguments, paths):
        self.arguments, self.paths = arguments, paths
        self.results = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self):
        """Hypothesis tries the same examples in every run: after conftest.py, before the tests."""
        from hypothesis import Phase, settings

        settings.register_profile("mutation", derandomize=True, database=None, deadline=None,
                                  phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutation")

    def pytest_sessionstart(self, session):
        self.session = session

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.session.last_failure = report.longreprtext

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        if session.testsfailed:
            pytest.exit("mutate: some tests cannot be imported.", returncode=1)
        if not self.arguments.kernels:
            load_kernels()
        gc.freeze()                     # a child need not collect these objects
        self.tests = {test.nodeid: test for test in session.items}
        self.record()
        file = self.arguments.out and self.arguments.out / "results.jsonl"
        if file and file.exists():
            self.results = dict(json.loads(line) for line in file.read_text().splitlines())
        with open(file or os.devnull, "a") as self.file:
            self.run(list(mutants_of(self.paths))[::self.arguments.every])
        return True

    def record(self):
        """Run every test without a change: which lines it runs, and how long it takes."""
        folder, digest = self.arguments.out, hashlib.sha256()
        for source in sorted([*PACKAGE.rglob("*.py"), *TESTS.rglob("*/*.py"), *self.paths]):
            digest.update(source.read_bytes())
        digest.update(repr((sorted(self.tests), self.paths)).encode())
        file = folder and folder / f"lines-{digest.hexdigest()[:12]}.pickle"
        if file and file.exists():
            self.seconds, self.tests_of = pickle.loads(file.read_bytes())
            return
        tests, self.seconds, self.tests_of = list(self.tests.values()), {}, {}
        parts = [part for n in range(16) if (part := tests[n::16])]
        for _, (seconds, found) in run_children(parts, self.start_recording, self.arguments.jobs):
            self.seconds.update(seconds)
            for name, lines in found.items():
                for line, ids in lines.items():
                    self.tests_of.setdefault((name, line), set()).update(ids)
            print(f"{len(self.seconds)} of {len(tests)} tests without a change", file=sys.stderr,
                  flush=True)
        if file:
            file.write_bytes(pickle.dumps((self.seconds, self.tests_of)))

    def start_recording(self, tests):
        return Recording(tests, lambda: change_nothing(self.paths),
                         [str(path) for path in self.paths])

    def run(self, mutants):
        """Run the tests of every mutant, and print what comes of it."""
        last, again = {}, []
        todo = [mutant for mutant in mutants if self.known(mutant) is None
                or self.arguments.again and self.known(mutant) in ("survives", "unreached")]

        def tests_of(mutant):
            return set().union(*(self.tests_of.get((str(mutant.path), line), ())
                                 for line in mutant.lines))

        def start(mutant, patience=PATIENCE):
            # What noticed the last mutant of this function may notice this one
            tests = sorted(tests_of(mutant), key=lambda test: (
                test != last.get(mutant.function), self.seconds[test], test))
            return Run([self.tests[test] for test in tests], mutant.make, self.seconds, patience)

        for mutant in todo:
            if not tests_of(mutant):
                self.note(mutant, "unreached", "")
        todo = [mutant for mutant in todo if tests_of(mutant)]
        for mutant, (result, words) in run_children(todo, start, self.arguments.jobs):
            if result == "noticed":
                last[mutant.function] = words
            if result in ("timeout", "signal"):
                again.append(mutant)    # perhaps another process was the cause
            else:
                self.note(mutant, result, words)
        for mutant, (result, words) in run_children(
                again, lambda mutant: start(mutant, MORE_PATIENCE), 1):
            self.note(mutant, result, words)
        self.summarize(mutants)

    def known(self, mutant):
        return self.results.get(mutant.key)

    def note(self, mutant, result, words):
        self.results[mutant.key] = result
        print(json.dumps([mutant.key, result]), file=self.file, flush=True)
        if result != "noticed" or self.arguments.all:
            print(f"{result}: {mutant} {words}", flush=True)

    def summarize(self, mutants):
        """A row for each room: how many mutants, and what became of them."""
        rooms = {}
        for mutant in mutants:
            room = mutant.path.relative_to(PACKAGE).parent.as_posix()
            for name in (room, "all"):
                rooms.setdefault(name, Counter())[self.known(mutant)] += 1
        print("| subject | mutants | survive | unreached | timeout | noticed |")
        print("|---|---|---|---|---|---|")
        for room, count in sorted(rooms.items(), key=lambda item: (item[0] == "all", item[0])):
            n, missed = count.total(), count["survives"] + count["unreached"]
            print(f"| `{room}` | {n} | {count['survives']} | {count['unreached']} | "
                  f"{count['timeout'] + count['signal']} | {1 - missed / n:.1%} |")


def load_kernels():
    """Load the compiled kernels once here, instead of in every child."""
    import numpy as np                  # here, as its BLAS reads the environment

    from numformer.kernels.runtime.compile import Kernel

    for name, module in list(sys.modules.items()):
        if name.startswith("numformer.kernels."):
            for kernel in vars(module).values():
                if isinstance(kernel, Kernel):
                    for dtype in map(np.dtype, ("float32", "float64")):
                        assert kernel[dtype]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="*", help="below numformer/ (default: all subjects)")
    parser.add_argument("--kernels", action="store_true", help="the kernels as plain Python")
    parser.add_argument("--tests", nargs="+", metavar="FILE",
                        help="only these tests may notice (default: those of SUITE)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="a sample: only each N-th mutant")
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="keep the results here, and go on from those that are there")
    parser.add_argument("--again", action="store_true",
                        help="try those again that survived, according to the results in --out")
    parser.add_argument("--all", action="store_true", help="also print what was noticed, by which "
                        "test")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    patterns = arguments.file or (KERNELS if arguments.kernels else SUBJECTS)
    paths = list(dict.fromkeys(
        path for pattern in patterns for path in sorted(PACKAGE.glob(pattern))
        if path.name not in ("__init__.py", *NOT_MUTATED)))
    if not paths:
        sys.exit(f"mutate: no file of numformer/ matches {' '.join(patterns)}.")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    tests = arguments.tests or (SUITE_OF_KERNELS if arguments.kernels else SUITE)
    tests = [path for pattern in tests for path in sorted(glob.glob(pattern)) or [pattern]]
    # Everything is collected, the slow tests too, and nothing is printed of single tests
    return int(pytest.main(
        ["-m", "", "-qq", "-s", "--assert=plain", "-p", "no:cacheprovider", "--no-summary", *tests],
        plugins=[Mutation(arguments, paths)]))


if __name__ == "__main__":
    # Before NumPy: one thread a process, as several run at once
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", COVERAGE_CORE="ctrace")
    if "--kernels" in sys.argv:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.exit(main())
