"""numformer eval: the loss of a run on all of its validation text."""

import math

from numformer.commands.runs import add_run_arguments, load_run, run_corpus
from numformer.commands.show import print_json
from numformer.datasets import DataError, load_corpus
from numformer.training import consecutive_blocks, mean_loss


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--data", default=None, help="another text, instead of the run's own; its last tenth counts")


def run(arguments):
    model, tokenizer, facts = load_run(arguments.run, arguments.best)
    corpus = run_corpus(facts) if arguments.data is None else load_corpus(arguments.data)
    try:
        batches = consecutive_blocks(tokenizer.encode(corpus.split()[1]), model.config.context_length)
    except ValueError as error:
        raise DataError(f"the last tenth of {corpus.name} cannot be measured: {error}") from None
    loss, tokens = mean_loss(model, batches), sum(batch.tokens for batch in batches)
    print(f"validation loss {loss:.4f} nats, {loss / math.log(2):.4f} bits a character, over {tokens:,} characters")
    if arguments.json:
        print_json({"val_loss": loss, "bits_per_character": loss / math.log(2), "tokens": tokens})
    return 0
