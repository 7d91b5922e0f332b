"""numformer sample: write text with a run's model."""

import sys
import time

import numpy as np

from numformer.commands import UsageError
from numformer.commands.runs import add_run_arguments, load_run
from numformer.commands.show import first_prompt, print_json
from numformer.generation import generate


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--prompt", default=None, help="text to begin with (default: a new line)")
    parser.add_argument("--tokens", type=int, default=500, metavar="N", help="characters to write (default: 500)")
    parser.add_argument("--temperature", type=float, default=0.8, metavar="X", help="0: always the likeliest (default: 0.8)")
    parser.add_argument("--top-k", type=int, default=None, metavar="K", help="draw among the K likeliest")
    parser.add_argument("--top-p", type=float, default=None, metavar="P", help="draw among the likeliest that hold P of the probability")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed, the same text (default: 0)")


def run(arguments):
    if arguments.prompt == "":
        raise UsageError("--prompt is empty; give at least one character, or leave it out.")
    if arguments.seed < 0:
        raise UsageError(f"--seed {arguments.seed} must be 0 or more.")
    model, tokenizer, _ = load_run(arguments.run, arguments.best)
    prompt = first_prompt(tokenizer) if arguments.prompt is None else arguments.prompt
    rng = np.random.default_rng(arguments.seed)
    started, ids = time.perf_counter(), []
    write("" if arguments.json else prompt)
    for token in generate(model, tokenizer.encode(prompt), arguments.tokens, rng, arguments.temperature, arguments.top_k, arguments.top_p):
        ids.append(token)
        write("" if arguments.json else tokenizer.decode([token]))
    seconds = time.perf_counter() - started
    if arguments.json:
        print_json({"text": prompt + tokenizer.decode(ids), "tokens": len(ids), "seconds": round(seconds, 3)})
    else:
        write("\n")
    return 0


def write(text):
    """Put text on the screen at once; what its encoding cannot show becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
