"""Every verb, with small arguments, in one process.

`python tests/commands/environments/every_verb.py VERB ...` works in the working folder, where
`text.txt` is a text, `run` a run and `solved` a student's folder, and prints as JSON what `outcome`
returns of each command of these verbs.
"""

import io
import json
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

TRAIN = ["train", "--data", "text.txt", "--snapshots", "2", "--n-layers", "1", "--n-heads", "2",
         "--d-model", "8", "--context-length", "16", "--batch-size", "2", "--warmup-steps", "2",
         "--steps", "2", "--eval-every", "0", "--save-every", "0"]
# verb: its commands, of which a later one may use what an earlier one wrote
COMMANDS = {
    "train": [[*TRAIN, "--out", "trained"]],
    "eval": [["eval", "run"]],
    "sample": [["sample", "run", "--tokens", "3"]],
    "export": [["export", "run", "--out", "published"]],
    "import": [["import", "published", "--out", "imported"]],
    "count": [["count", "gpt2"]],
    "draw": [["draw", "run", "--out", "drawn.svg"]],
    "plot": [["plot", kind, "run", "--out", f"{kind}.png"] for kind in ("attention", "token-loss")],
    "explore": [["explore", "run", "--out", "run.html"]],
    "replay": [["replay", "run", "--out", "run.gif"]],
    "figures": [["figures", "alibi", "--out", "figures"]],
    "compare": [["compare", "trained", "--seconds", "0.01", "--out", "compared.png"]],
    "reproduce": [["reproduce", "ngram", "--data", "text.txt", "--seeds", "1", "--out", "again"]],
    "experiment": [["experiment", "three-ways", "--steps", "1", "--out", "ways.png"]],
    "deck": [["deck"], ["deck", "A"]],
    "exercises": [["exercises", "1", "--out", "exercises"]],
    "grade": [["grade", "1", "solved", "--html", "graded.html"]],
    "hint": [["hint", "1", "exercises/student"]],
    "solution": [["solution", "1", "solved"]],        # once `grade` has given all points
    "audit": [["audit", "relu", "--figure", "audit.png"]],
    "bench": [["bench", "train", "--seconds", "0", "--no-memory", "--no-compile", "--case",
               "1x1x8:1x8"]],
    "doctor": [["doctor"]],
}


def outcome(words):
    """{"words", "status", "stdout", "stderr"} of a command; a traceback is part of stderr."""
    from numformer.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), sys.stdout.encoding, sys.stdout.errors)
                for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([*words])
        except SystemExit as end:
            status = end.code
        except Exception:
            status = None
            traceback.print_exc()
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode(errors="replace"))
    return {"words": words, "status": status, "stdout": said[0], "stderr": said[1]}


if __name__ == "__main__":
    from numformer.commands.shared import process

    process.prepare()
    print(json.dumps([outcome(words) for verb in sys.argv[1:] for words in COMMANDS[verb]]))
