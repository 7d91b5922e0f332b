"""numformer count: parameters, FLOPs per token and KV cache of a model.

    numformer count gpt2
"""

import math
from pathlib import Path

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.analysis import count, parameter_shapes
from numformer.models import PUBLISHED
from numformer.runs import load_checkpoint, load_run
from numformer.runs.load_run import read_facts
from numformer.terminal import did_you_mean, printable

# how a field of a config is printed
SIZES = {
    "n_layers": "{:,} layers", "n_heads": "{:,} heads", "d_head": "heads of {:,}",
    "d_model": "width {:,}",
    "text_layers": "for texts {} layers", "text_width": "width {}",
    "vocab_size": "vocabulary {:,}",
    "context_length": "context {:,}", "image_size": "images of {0} x {0}",
    "patch_size": "patches of {0} x {0}",
}


def add_arguments(parser):
    parser.add_argument("name", metavar="NAME", help=f"a published model ({', '.join(PUBLISHED)}), "
                        "or the folder of a run")


def run(arguments):
    name, folder = arguments.name, Path(arguments.name)
    if name in PUBLISHED:
        config = PUBLISHED[name]
        costs = count(config)
    elif (path := folder / "checkpoint.safetensors").exists():
        arrays, facts = load_checkpoint(path)
        _, kind, config, _ = read_facts(arrays, facts, path)
        costs = load_run(folder)[0].costs() if kind == "NGramLanguageModel" else count(config)
        if facts.get("frozen"):
            costs |= {"trained_parameters": n_trained(config, facts["frozen"])}
    else:
        raise UsageError(f"{name} is neither a model nor a run"
                         f"{did_you_mean(name, PUBLISHED)}; choose from "
                         f"{', '.join(PUBLISHED)}, or give the folder of a run.")
    options = config.as_dict()
    sizes = [form.format(options[size]) for size, form in SIZES.items()
             if options.get(size) is not None]
    print(f"{printable(name)}: {', '.join(sizes)}")
    for label, key, unit in (("parameters", "parameters", ""),
                             ("trained", "trained_parameters", "the others are frozen"),
                             ("active", "active_parameters", "per token"),
                             ("forward pass", "flops_per_token", "FLOPs per token"),
                             ("training step", "training_flops_per_token", "FLOPs per token"),
                             ("forward pass", "flops_per_image", "FLOPs per image"),
                             ("training step", "training_flops_per_image", "FLOPs per image"),
                             ("forward pass", "flops_per_text", "FLOPs per text"),
                             ("training step", "training_flops_per_text", "FLOPs per text"),
                             ("training step", "training_flops_per_pair", "FLOPs per pair"),
                             ("KV cache", "kv_bytes_per_token", "bytes per token"),
                             ("KV cache", "kv_bytes_per_source_token", "bytes per source token"),
                             ("state", "state_bytes", "bytes per sequence")):
        if costs.get(key):
            print(f"  {label:14}{costs[key]:>20,}  {scaled(costs[key]):>8}  {unit}".rstrip())
    if arguments.json:
        print_json({"name": name, **costs})
    return 0


def n_trained(config, frozen):
    """The number of parameters that are not frozen, in a model of this config."""
    return sum(math.prod(shape) for name, shape in parameter_shapes(config).items()
               if name not in frozen)


def scaled(number):
    """A number with the suffix k, M, G or T.

    Examples
    --------
    >>> scaled(1557611200), scaled(999)
    ('1.56 G', '999')
    """
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10 ** power:
            return f"{number / 10 ** power:.2f} {letter}"
    return str(number)
