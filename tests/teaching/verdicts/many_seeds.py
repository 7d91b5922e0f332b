"""`numformer.check` on the references themselves, for many seeds.

    python tests/teaching/verdicts/many_seeds.py 1000         # seeds 0 to 999: some CPU hours
    python tests/teaching/verdicts/many_seeds.py 1000 5000    # from 5000 on
"""

import sys
import time

from numformer import backend, check
from numformer.specifications import PROBLEMS


def refused(seeds, names=PROBLEMS):
    """(name, seed, why) of every reference that is not simply right, or is not finite."""
    for seed in seeds:
        for name in names:
            for called, function in ((name, PROBLEMS[name].function),
                                     (f"{name}_backward", PROBLEMS[name].gradient)):
                try:
                    verdict = check(called, function, seed, seconds=None, memory=None,
                                    process=False, cause=False)
                except AssertionError as error:       # of `Instance`
                    yield called, seed, str(error)
                    continue
                if not verdict or verdict.remarks or verdict.not_tested:
                    yield called, seed, verdict.text


def main(count=10, first=0):
    backend.use("numpy")
    started, found = time.perf_counter(), []
    for called, seed, why in refused(range(first, first + count)):
        found.append(why)
        print(f"{called}, seed {seed}: {why}", flush=True)
    not_finite = sum("is not finite" in why for why in found)
    print(f"{2 * len(PROBLEMS)} references, {count} seeds each: {len(found) - not_finite} refused, "
          f"{not_finite} not finite; {time.perf_counter() - started:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
