"""numformer count: what a model costs, without building it."""

from pathlib import Path

from numformer.commands import UsageError
from numformer.commands.runs import load_run, read_facts
from numformer.commands.show import print_json
from numformer.models import CONFIGS, VISION_CONFIGS, count
from numformer.training import load_checkpoint

PUBLISHED = CONFIGS | VISION_CONFIGS
SIZES = {                                                             # what is said of a config, where it has it
    "n_layers": "{:,} layers", "n_heads": "{:,} heads", "d_model": "width {:,}", "vocab_size": "vocabulary {:,}",
    "context_length": "context {:,}", "image_size": "images of {0} x {0}", "patch_size": "patches of {0} x {0}",
}


def add_arguments(parser):
    parser.add_argument("name", metavar="NAME", help=f"a published model ({', '.join(PUBLISHED)}), or the folder of a run")


def run(arguments):
    name, folder = arguments.name, Path(arguments.name)
    if name in PUBLISHED:
        config = PUBLISHED[name]
        costs = count(config)
    elif (path := folder / "checkpoint.safetensors").is_file():
        _, kind, config, _ = read_facts(load_checkpoint(path)[1], path)
        costs = load_run(folder)[0].costs() if kind == "NGramLanguageModel" else count(config)
    else:
        raise UsageError(f"{name} is neither a model nor a run; choose from {', '.join(PUBLISHED)}, or give the folder of a run.")
    switches = config.as_dict()
    print(f"{name}: " + ", ".join(said.format(switches[size]) for size, said in SIZES.items() if size in switches))
    for label, key, unit in (("parameters", "parameters", ""), ("active", "active_parameters", "for a token"),
                             ("forward pass", "flops_per_token", "FLOPs a token"),
                             ("training step", "training_flops_per_token", "FLOPs a token"),
                             ("forward pass", "flops_per_image", "FLOPs an image"),
                             ("training step", "training_flops_per_image", "FLOPs an image"),
                             ("KV cache", "kv_bytes_per_token", "bytes a token"),
                             ("state", "state_bytes", "bytes a text")):
        if costs.get(key):
            print(f"  {label:14}{costs[key]:>20,}  {scaled(costs[key]):>8}  {unit}".rstrip())
    if arguments.json:
        print_json({"name": name, **costs})
    return 0


def scaled(number):
    """A number in thousands, millions, ...

    Examples
    --------
    >>> scaled(1557611200), scaled(999)
    ('1.56 G', '999')
    """
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10 ** power:
            return f"{number / 10 ** power:.2f} {letter}"
    return str(number)
