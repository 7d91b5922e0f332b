"""What every attack shares: how an attempt is judged, and its limits of time and memory."""

import io
import json
import re
import signal
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout, suppress

from numformer.cli import main
from numformer.terminal import printable

with suppress(ImportError):                           # Windows, where the attacks do not run
    import resource

MOST_BYTES = 2**30                                    # of memory, beyond what was used before
MOST_CHARACTERS = 1500                                # of an error message
PROGRESS = re.compile("step |  sample: |    |[0-9,]+ steps take about ")


class Hang(BaseException):
    """An attempt took too long; no `except Exception` stops it."""


class Finding(Exception):
    """An attempt ended as none may end."""


class Attacks:
    """Run attempts one after the other, and count how they ended.

    Parameters
    ----------
    seconds : float
        Longest time of an attempt on a processor; waiting may take ten times as long, because
        other programs may be running.

    Notes
    -----
    An attempt is a function without arguments. It returns how it ended, such as "refused", or
    raises `Finding`. Any other exception is a finding, and so are a hang and too much memory.
    """

    def __init__(self, seconds=5.0):
        self.seconds, self.ended, self.findings = seconds, Counter(), []
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, self._hang)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2 * MOST_BYTES, resource.RLIM_INFINITY))

    def _hang(self, number, frame):
        raise Hang(f"{signal.Signals(number).name} after {self.seconds} s in "
                   f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def attempt(self, name, function):
        """Run one attempt; its name appears if it is a finding."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._limit(self.seconds)
        try:
            how = function()
            self._limit(0)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if 1024 * (after - before) > MOST_BYTES:
                raise Finding(f"took {(after - before) / 2**20:.1f} GiB of memory")
        except (Exception, Hang) as error:
            self._limit(0)
            how = "finding"
            self.findings.append(f"{name}: {type(error).__name__}: {str(error)[:600]}")
        self.ended[f"{name.split()[0]}: {how}"] += 1

    def _limit(self, seconds):
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, 10 * seconds)

    def report(self):
        """Print the counts and the findings; return the exit status."""
        for how, count in sorted(self.ended.items()):
            print(f"{count:7,}  {how}")
        for finding in self.findings:
            print("FINDING", printable(finding))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"{sum(self.ended.values()):,} attempts, {len(self.findings)} findings, peak memory "
              f"{peak:.0f} MiB")
        return bool(self.findings)


def verb(*argv):
    """How a command line ends: "accepted", or "refused" with one clean line; else `Finding`."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([str(word) for word in argv])
        except SystemExit as stop:
            status = stop.code
    if status == 0:
        if "--json" in argv:
            json.loads(out.getvalue().rstrip("\n").splitlines()[-1])
        return "accepted"
    check_refusal(status, err.getvalue())
    return "refused"


def check_refusal(status, err):
    """Finding unless a command failed with status 1 or 2 and one line without control characters.

    Progress may precede the line: the losses, samples and time of a training.
    """
    lines = [line for line in err.split("\n") if line and not PROGRESS.match(line)]
    if status not in (1, 2):
        raise Finding(f"exit status {status}: {err[-500:]!r}")
    if len(lines) != 1 or not lines[0].startswith("numformer"):
        raise Finding(f"not one line: {err[-500:]!r}")
    if printable(lines[0]) != lines[0] or len(lines[0]) > MOST_CHARACTERS:
        raise Finding(f"an unclean line of {len(lines[0])} characters: {lines[0][:300]!r}")
    if "llocate" in lines[0] or lines[0] == "numformer: MemoryError":
        raise Finding(f"the memory ran out: {lines[0]}")


def numbers_of_command_line(default):
    """(how many, seed) of a command line `python PAGE.py [COUNT [SEED]]`."""
    given = [int(word) for word in sys.argv[1:3]]
    return (given + [default, 0][len(given):])[:2]
