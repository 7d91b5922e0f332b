"""numformer eval: the loss of a run on all of its validation text."""

import math

from numformer.commands.runs import add_run_arguments, load_run, run_material
from numformer.commands.show import print_json
from numformer.training import mean_loss


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--data", default=None, help="another text, instead of the run's own; its last tenth counts")


def run(arguments):
    model, tokenizer, facts, task = load_run(arguments.run, arguments.best)
    material = run_material(task, facts) if arguments.data is None else task.load(arguments.data)
    batches = task.validation(material, tokenizer, model.config)
    loss, tokens = mean_loss(model, batches), sum(batch.tokens for batch in batches)
    result = {"val_loss": loss, "tokens": tokens}
    if task.unit == "nats a character":
        result["bits_per_character"] = loss / math.log(2)
        print(f"validation loss {loss:.4f} nats, {loss / math.log(2):.4f} bits a character, over {tokens:,} characters")
    else:
        print(f"validation loss {loss:.4f} {task.unit}, over {tokens:,}")
    for name, value in task.measure(model, tokenizer, material).items():
        result[name] = value
        print(f"{name.replace('_', ' ')}: {value:.4g}")
    if arguments.json:
        print_json(result)
    return 0
