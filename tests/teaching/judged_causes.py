"""The causes that `check` names for all wrong answers, read and judged by a person.

    python tests/teaching/judged_causes.py            # what is named now, but was not judged
    python tests/teaching/judged_causes.py --record   # after judging: write judged_causes.json

Every text in judged_causes.json was compared with the true cause of its answer: it is right, or ""
where no cause is named. Numbers of a random problem are left out of the texts.
"""

import json
import re
import sys
import warnings
from pathlib import Path

from answers import WRONG

from numformer import backend, check

RECORD = Path(__file__).with_name("judged_causes.json")
SEEDS = (0, 1, 2)


def named(answer, seed):
    """The cause of a wrong answer, without the numbers of the problem; None if it is not found."""
    verdict = check(answer.name, answer.fn, seed=seed, process=False, seconds=60.0)
    return None if verdict.ok else re.sub(r"-?[0-9.e+-]+ times", "# times", verdict.cause)


def judged():
    """{name of the answer's function: the texts that were judged as right}."""
    return json.loads(RECORD.read_text())


def main(record):
    known, found = judged() if RECORD.exists() else {}, {}
    for answer in WRONG:
        name = answer.fn.__name__
        found[name] = sorted({named(answer, seed) for seed in SEEDS}, key=str)
        new = [cause for cause in found[name] if cause not in known.get(name, [])]
        if new:
            print(f"{name} ({answer.name})\n    true:  {answer.note}")
            print("\n".join(f"    named: {cause}" for cause in new))
    if record:
        RECORD.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    n = sum("" not in causes for causes in found.values())
    print(f"{sum(None in causes for causes in found.values())} of {len(found)} wrong answers are "
          f"missed for one of {len(SEEDS)} seeds; a cause for {n}, for every seed")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    backend.use("numpy")
    main("--record" in sys.argv)
