"""numformer sample: generate text with a run's model.

    numformer sample run --tokens 3
"""

import sys
import time

import numpy as np

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.commands.shared.run_arguments import (
    add_run_arguments, add_weights_argument, smaller_weights)
from numformer.generation import generate
from numformer.commands.shared.sampling import (
    add_sampling_arguments, check_sampling_arguments, sampling)
from numformer.layers.token_step import UnknownPart
from numformer.recipes import PairTask, TextTask, first_prompt
from numformer.runs import load_run
from numformer.terminal import show_text

DEFAULT_TOKENS, MOST_TOKENS = 500, 10**9


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--prompt", default=None, help="text to continue (default: a new line), or "
                        "to answer (default: held-out text)")
    parser.add_argument("--tokens", type=int, default=None, metavar="N",
                        help="number of tokens to generate (default: 500), fewer where a published "
                        "model ends its text; of an answer, the most (default: the task's)")
    add_sampling_arguments(parser)
    add_weights_argument(parser, "how weights are stored while text is generated: fewer bits are "
                         "faster and cost loss, see eval --weights")


@np.errstate(over="ignore", invalid="ignore")         # logits that are not finite are refused
def run(arguments):
    if arguments.prompt == "":
        raise UsageError("--prompt is empty; give at least one character, or leave it out.")
    check_sampling_arguments("sample", arguments)
    try:
        tokens = DEFAULT_TOKENS if arguments.tokens is None else arguments.tokens
        check_whole("sample", "--tokens", tokens, least=0)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if tokens > MOST_TOKENS:
        raise UsageError(f"sample: --tokens={tokens} must be at most {MOST_TOKENS:,}.")
    model, tokenizer, facts, task = load_run(arguments.run, arguments.best)
    weights = smaller_weights(arguments)
    if weights is not None and not hasattr(model, "new_cache"):
        raise UsageError(f"sample: --weights={weights} is for decoders; leave it out.")
    if not isinstance(task, TextTask):
        return _answer(task, model, tokenizer, arguments)
    prompt = first_prompt(tokenizer) if arguments.prompt is None else arguments.prompt
    try:
        ids = tokenizer.prompt_ids(prompt)
    except ValueError as error:
        raise UsageError(f"--prompt: {error}") from None
    rng = np.random.default_rng(arguments.seed)
    temperature, top_k, top_p, end = sampling(arguments, facts, model)
    started, texts, n_tokens = time.perf_counter(), [], 0

    def counted(tokens):
        nonlocal n_tokens
        for n_tokens, token in enumerate(tokens, 1):
            yield token

    if not arguments.json:
        show_text(prompt, sys.stdout)
    try:
        chosen = generate(model, ids, tokens, rng, temperature, top_k, top_p, weights, end)
        for text in tokenizer.decode_stream(counted(chosen), after=ids):
            texts.append(text)
            if not arguments.json:
                show_text(text, sys.stdout)
    except UnknownPart as error:
        raise UsageError(f"sample: {error}") from None
    seconds = time.perf_counter() - started
    if arguments.json:
        print_json({"text": prompt + "".join(texts), "tokens": n_tokens,
                    "seconds": round(seconds, 3), "weights": arguments.weights})
    else:
        show_text("\n", sys.stdout)
    return 0


def _answer(task, model, tokenizer, arguments):
    """Print the model's answer to the prompt, or to held-out text."""
    started = time.perf_counter()
    if arguments.tokens and isinstance(task, PairTask):
        task, most = task.with_recipe(task.recipe), task.max_tokens(model.config)     # a copy
        task.longest = min(arguments.tokens, most or arguments.tokens)
    if arguments.prompt is None:
        # may hold several answers
        answer = task.sample(model, tokenizer, np.random.default_rng(arguments.seed)), None
    else:
        try:
            answer = task.answer(model, tokenizer, arguments.prompt)
        except ValueError as error:
            raise UsageError(f"--prompt: {error}") from None
        if answer is None:
            raise UsageError(f"{arguments.run}: {type(model).__name__} cannot answer a prompt; "
                             "leave --prompt out.")
    text, tokens = answer
    if arguments.json:
        print_json({"text": text, "tokens": tokens, "seconds": round(time.perf_counter() - started,
                                                                     3)})
    else:
        show_text(f"{text}\n", sys.stdout)
    return 0
