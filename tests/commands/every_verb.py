"""Every verb, with small arguments, in one process.

`python tests/commands/every_verb.py FOLDER [VERB ...]` works in FOLDER, where `text.txt` is a text
and `run` a run, and prints as JSON what `outcome` returns of each: all verbs, or those named.
"""

import io
import json
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

SIZES = ["--n-layers", "1", "--n-heads", "2", "--d-model", "8", "--context-length", "16",
         "--batch-size", "2", "--warmup-steps", "2", "--steps", "2", "--eval-every", "0",
         "--save-every", "0"]
TRAIN = ["train", "--data", "text.txt", "--snapshots", "2", *SIZES]
# verb: its commands, of which a later one may use what an earlier one wrote
COMMANDS = {
    "train": [[*TRAIN, "--out", "trained"]],
    "eval": [["eval", "run"]],
    "sample": [["sample", "run", "--tokens", "3"]],
    "export": [["export", "run", "--out", "published"]],
    "import": [["import", "published", "--out", "imported"]],
    "count": [["count", "gpt2"]],
    "draw": [["draw", "run", "--out", "drawn.svg"]],
    "plot": [["plot", kind, "run", "--out", f"{kind}.png"]
             for kind in ("attention", "training", "token-loss")],
    "explore": [["explore", "run", "--out", "run.html"]],
    "replay": [["replay", "run", "--out", "run.gif"]],
    "figures": [["figures", "alibi", "tile_order", "--out", "figures"]],
    "compare": [["compare", "run", "--seconds", "0.01", "--out", "compared.png"]],
    "reproduce": [["reproduce", "ngram", "--data", "text.txt", "--seeds", "1", "--out", "again"]],
    "experiment": [["experiment", "three-ways", "--steps", "1", "--out", "ways.png"]],
    "deck": [["deck", "A"]],
    "exercises": [["exercises", "1", "--out", "exercises"]],
    "grade": [["grade", "1", "exercises/student", "--html", "graded.html"]],
    "hint": [["hint", "1", "exercises/student"]],
    "solution": [["solution", "1", "exercises/student"]],
    "audit": [["audit", "relu", "--figure", "audit.png"]],
    "bench": [["bench", "attention", "--seconds", "0", "--no-memory", "--case", "1x2x48x8:causal"]],
    "doctor": [["doctor"]],
}


def outcome(words):
    """{"status", "stdout", "stderr"} of a command, where a traceback is part of stderr."""
    from numformer.cli import main

    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            status = main([*words])
        except SystemExit as end:
            status = end.code
        except Exception:
            status = None
            traceback.print_exc()
    return {"words": words, "status": status, "stdout": out.getvalue(), "stderr": err.getvalue()}


if __name__ == "__main__":
    from numformer.commands.shared import process

    process.prepare()
    import os

    os.chdir(sys.argv[1])
    print(json.dumps([outcome(words) for verb in sys.argv[2:] or COMMANDS
                      for words in COMMANDS[verb]]))
