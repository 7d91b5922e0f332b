"""Examine `numformer.check` on the corpora of answers.

    python tests/teaching/examine.py right 50     # right answers that any of 50 seeds refuses
    python tests/teaching/examine.py wrong        # each true cause, and the one that check names
    python tests/teaching/examine.py edges 3      # edge mistakes: refused, remarked or missed

Whether a named cause is right is for a person to judge: both are printed side by side.
"""

import sys
import warnings

from answers import EDGES, RIGHT, WRONG

from numformer import check


def right(seeds):
    refused = {}
    for answer in RIGHT:
        for seed in seeds:
            verdict = check(answer.name, answer.fn, seed=seed)
            if not verdict:
                refused.setdefault(str(answer), []).append(verdict.text)
    for answer, texts in refused.items():
        print(f"{answer}: refused for {len(texts)} seeds\n    {texts[0]}")
    print(f"refused: {len(refused)} of {len(RIGHT)} right answers, {len(seeds)} seeds each")


def wrong(seeds):
    missed, named = 0, 0
    for answer in WRONG:
        verdicts = [check(answer.name, answer.fn, seed=seed) for seed in seeds]
        causes = {str(verdict.cause) for verdict in verdicts}
        missed += any(map(bool, verdicts))
        named += all(verdict.cause for verdict in verdicts)
        found = "MISSED" if any(map(bool, verdicts)) else " | ".join(sorted(causes))
        print(f"{answer.name}\n    true:  {answer.note}\n    named: {found}")
    print(f"{missed} of {len(WRONG)} wrong answers missed; a cause for {named} "
          f"({sum(answer.backward for answer in WRONG)} are backwards)")


def edges(seeds):
    kinds = {}
    for answer in EDGES:
        verdicts = [check(answer.name, answer.fn, seed=seed) for seed in seeds]
        how = ("refused" if not any(verdicts) else
               "remarked" if all(not verdict or verdict.remarks for verdict in verdicts)
               else "MISSED")
        kinds.setdefault(answer.kind, []).append(how)
        print(f"{how} [{answer.kind}] {answer}")
    for how in ("refused", "remarked", "MISSED"):
        print(f"{how}: {sum(each.count(how) for each in kinds.values())} of {len(EDGES)} "
              f"functions; {sum(how in each for each in kinds.values())} of {len(kinds)} kinds")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    corpus, number = sys.argv[1], int((sys.argv[2:] or ["1"])[0])
    {"right": right, "wrong": wrong, "edges": edges}[corpus](range(number))
