"""numformer sample: write text with a run's model, or its answer to a text."""

import sys
import time

import numpy as np

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.commands.runs import add_run_arguments, load_run, show_text
from numformer.commands.show import print_json
from numformer.generation import check_sampling, generate
from numformer.tasks import TextTask, first_prompt


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--prompt", default=None,
                        help="text to begin with (default: a new line), or to answer (default: something that was held out)")
    parser.add_argument("--tokens", type=int, default=500, metavar="N", help="characters to write (default: 500)")
    parser.add_argument("--temperature", type=float, default=0.8, metavar="X", help="0: always the likeliest (default: 0.8)")
    parser.add_argument("--top-k", type=int, default=None, metavar="K", help="draw among the K likeliest")
    parser.add_argument("--top-p", type=float, default=None, metavar="P", help="draw among the likeliest that hold P of the probability")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed, the same text (default: 0)")


def run(arguments):
    if arguments.prompt == "":
        raise UsageError("--prompt is empty; give at least one character, or leave it out.")
    try:
        check_whole("sample", "--seed", arguments.seed, least=0)
        check_whole("sample", "--tokens", arguments.tokens, least=0)
        check_sampling(arguments.temperature, arguments.top_k, arguments.top_p)
    except ValueError as error:
        raise UsageError(str(error)) from None
    model, tokenizer, _, task = load_run(arguments.run, arguments.best)
    if not isinstance(task, TextTask):
        return _answer(task, model, tokenizer, arguments)
    prompt = first_prompt(tokenizer) if arguments.prompt is None else arguments.prompt
    try:
        ids = tokenizer.encode(prompt)
    except ValueError as error:
        raise UsageError(f"--prompt: {error}") from None
    rng = np.random.default_rng(arguments.seed)
    started, new = time.perf_counter(), []
    if not arguments.json:
        show_text(prompt, sys.stdout)
    for token in generate(model, ids, arguments.tokens, rng, arguments.temperature, arguments.top_k, arguments.top_p):
        new.append(token)
        if not arguments.json:
            show_text(tokenizer.decode([token]), sys.stdout)
    seconds = time.perf_counter() - started
    if arguments.json:
        print_json({"text": prompt + tokenizer.decode(new), "tokens": len(new), "seconds": round(seconds, 3)})
    else:
        show_text("\n", sys.stdout)
    return 0


def _answer(task, model, tokenizer, arguments):
    """What a model makes of the prompt, or of something that was held out."""
    started = time.perf_counter()
    if arguments.prompt is None:
        answer = task.sample(model, tokenizer, np.random.default_rng(arguments.seed)), None       # several answers may be in it
    else:
        try:
            answer = task.answer(model, tokenizer, arguments.prompt)
        except ValueError as error:
            raise UsageError(f"--prompt: {error}") from None
        if answer is None:
            raise UsageError(f"{arguments.run}: {type(model).__name__} answers no texts; leave --prompt out.")
    text, tokens = answer
    if arguments.json:
        print_json({"text": text, "tokens": tokens, "seconds": round(time.perf_counter() - started, 3)})
    else:
        show_text(f"{text}\n", sys.stdout)
    return 0
