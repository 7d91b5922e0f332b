"""numformer eval: the loss of a run on all of its validation data.

    numformer eval run
"""

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.commands.shared.run_arguments import (
    add_run_arguments, add_weights_argument, smaller_weights)
from numformer.generation import rounded_weights
from numformer.layers.token_step import UnknownPart
from numformer.runs import load_run
from numformer.runs.load_run import run_corpus
from numformer.training import mean_loss

LOSS = ("val_loss", "tokens", "bits_per_character", "characters")     # printed in the first line


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--data", default=None, help="evaluate on the last tenth of another text "
                        "instead of the run's")
    add_weights_argument(parser, "also evaluate with the weights that sample --weights reads")


def run(arguments):
    weights = smaller_weights(arguments)
    result, unit = evaluated(arguments.run, arguments.best, arguments.data, weights)
    smaller = result.pop("loss_with_smaller_weights", None)
    loss, tokens, bits = result["val_loss"], result["tokens"], result.get("bits_per_character")
    if bits is None:
        print(f"validation loss {loss:.4f} {unit}, on {tokens:,} targets")
    elif unit == "nats per character":
        print(f"validation loss {loss:.4f} nats, {bits:.4f} bits per character, on {tokens:,} "
              "characters")
    else:
        print(f"validation loss {loss:.4f} {unit}, {bits:.4f} bits per character, on {tokens:,} "
              f"tokens of {result['characters']:,} characters")
    if smaller is not None:
        print(f"with {weights} weights {smaller:.4f}, a difference of {smaller - loss:+.4f}")
    for name, value in result.items():
        if name not in LOSS and not name.endswith("_before"):
            before = result.get(f"{name}_before")
            print(f"{name.replace('_', ' ')}: {value:.4g}"
                  f"{'' if before is None else f', before training {before:.4g}'}")
    if arguments.json:
        extra = {} if smaller is None else {"weights": weights, "weights_val_loss": smaller}
        print_json(result | extra)
    return 0


def evaluated(folder, best=False, data=None, weights=None):
    """The measures of a run: ({name: number}, unit of the loss).

    With `weights`, "bfloat16" or "int8", among them is the loss with weights of 16 or 8 bits.
    """
    model, tokenizer, facts, task = load_run(folder, best)
    corpus = run_corpus(task, facts) if data is None else task.load(data)
    batches = task.validation(corpus, tokenizer, model.config)
    loss = mean_loss(model, batches)
    result = {"val_loss": loss, "tokens": sum(batch.n_targets for batch in batches)}
    if weights is not None:
        try:
            with rounded_weights(model, weights):
                result["loss_with_smaller_weights"] = mean_loss(model, batches)
        except UnknownPart as error:
            raise UsageError(f"eval: --weights={weights}: {error}") from None
    bits = task.bits_per_character(loss, batches, tokenizer)
    if bits is not None:
        characters = task.n_characters(batches, tokenizer)
        result |= {"bits_per_character": bits, "characters": characters}
    before = {f"{name}_before": value for name, value in facts.get("before", {}).items()}
    return result | task.measure(model, tokenizer, corpus) | before, task.unit_of(tokenizer)
