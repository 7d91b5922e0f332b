"""How long presets and experiments took when they were measured: the last column of RESULTS.md."""

import re
from functools import lru_cache
from pathlib import Path

ROW = re.compile(r"^\| ([a-z0-9-]+) \|.*\| ([0-9.]+) \|$", re.MULTILINE)


@lru_cache(maxsize=1)
def measured_minutes():
    """{name: minutes of the longest run} of each preset and experiment that has been timed.

    On the machine that RESULTS.md names: two cores.
    """
    found = {}
    for name, minutes in ROW.findall((Path(__file__).parent / "RESULTS.md").read_text("utf-8")):
        found[name] = max(float(minutes), found.get(name, 0.0))
    return found
