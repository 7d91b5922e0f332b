"""How many cores this process may use, which may be few of the machine's."""

import math
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path


def available_cores():
    """How many cores this process may use: of its affinity, and as far as a quota allows.

    A container or a job of a cluster may have few of a machine's cores.
    """
    allowed = (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
               else os.cpu_count() or 1)
    return min(allowed, _quota())


@lru_cache(maxsize=1)
def _quota(groups="/proc/self/cgroup", mount="/sys/fs/cgroup"):
    """The cores that the quotas of this process's control groups allow, rounded up; Linux alone."""
    least = math.inf
    try:
        lines = Path(groups).read_text().splitlines()
        own = next(line.split("::", 1)[1] for line in lines if line.startswith("0::"))
    except (OSError, ValueError, StopIteration):      # another system, or groups of version 1
        return least
    group = Path(mount, own.lstrip("/"))
    for folder in (group, *group.parents):
        if not folder.is_relative_to(mount):
            break
        with suppress(OSError, ValueError):           # the root has no quota, others "max"
            quota, period = map(int, (folder / "cpu.max").read_text().split())
            least = min(least, max(1, math.ceil(quota / period)))
    return least
