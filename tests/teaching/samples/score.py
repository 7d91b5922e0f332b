"""What `check` says of functions by people who had not seen how it works.

    python tests/teaching/samples/score.py papers      # each wrong one, its mistake, what is said
    python tests/teaching/samples/score.py papers w_ln_annotated

A sample is written for a release by somebody who has read the public documentation and the
functions alone. Whether what is said is right is for another person to judge: see HOW_RIGHT.md.
"""

import importlib
import sys
import warnings

from numformer import backend, check
from numformer.specifications import PROBLEMS

NAMES = ("course", "ports", "papers", "research", "homework", "repositories",
         "tutors", "study_group")                      # in their order


def sample(name):
    """The functions of a sample that can be checked: dict of `name`, `fn`, `wrong` and `cause`."""
    return [each for each in importlib.import_module(name).SAMPLES
            if each["name"].removesuffix("_backward") in PROBLEMS]


def main(name, chosen=()):
    counts = dict.fromkeys(("right", "refused", "wrong", "missed", "cause named"), 0)
    for each in sample(name):
        function, wrong = each["fn"], each["wrong"]
        if chosen and function.__name__ not in chosen:
            continue
        verdict = check(each["name"], function, seed=0, process=False, seconds=60.0)
        counts["wrong" if wrong else "right"] += 1
        if wrong:
            counts["missed"] += verdict.ok
            counts["cause named"] += bool(verdict.cause)
            print(f"{each['name']} ({function.__name__})\n    true: {each['cause']}\n    said: "
                  + " | ".join(verdict.text.splitlines()), flush=True)
        elif not verdict:
            counts["refused"] += 1
            print(f"REFUSED {each['name']} ({function.__name__})\n    {verdict.text}")
    print(", ".join(f"{what}: {n}" for what, n in counts.items()))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    backend.use("numpy")
    main(sys.argv[1], sys.argv[2:])
