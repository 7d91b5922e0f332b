"""numformer export: the model of a run becomes a folder that transformers loads.

    numformer export run --out published
"""

import sys

from numformer.commands.shared.output import print_json
from numformer.commands.shared.run_arguments import add_run_arguments
from numformer.interop import FAMILIES, family_of, save
from numformer.recipes import PairTask
from numformer.runs import load_run
from numformer.runs.padded_tokenizer import PaddedTokenizer
from numformer.terminal import show_text

# Of config.json: the ids of padding, BOS and EOS of an encoder-decoder
SPECIAL_KEYS = ("pad_token_id", "decoder_start_token_id", "eos_token_id")


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--out", metavar="FOLDER", required=True, help="folder to write: "
                        "config.json, model.safetensors and the tokenizer")
    parser.add_argument("--family", choices=list(FAMILIES), default=None, help="which published "
                        "architecture, if the model fits several (default: the first that fits)")
    parser.add_argument("--dtype", choices=["bfloat16", "float16", "float32"], default=None,
                        help="of the weights in the file, rounded to the nearest (default: that of "
                        "the published config.json where all weights still are such numbers, and "
                        "else that of the run)")
    parser.add_argument("--no-tokenizer", action="store_true",
                        help="write the weights alone")


def run(arguments):
    model, tokenizer, facts, task = load_run(arguments.run, arguments.best)
    more, published = {}, facts.get("published", {})
    if isinstance(task, PairTask):
        more = dict(zip(SPECIAL_KEYS, task.special_ids(tokenizer)))
    if isinstance(tokenizer, PaddedTokenizer):
        tokenizer = tokenizer.tokenizer
    tokenizer = None if arguments.no_tokenizer else tokenizer
    family = arguments.family or _family(model, published)
    save(model, tokenizer, arguments.out, family, more, arguments.dtype, published)
    family = family_of(model, family).name
    show_text(f"{arguments.out}: a {family}.\n", sys.stdout)
    if arguments.json:
        print_json({"folder": str(arguments.out), "family": family})
    return 0


def _family(model, published):
    """The family that the model came from, if it still fits; several may."""
    try:
        return family_of(model, published["config.json"]["model_type"]).name
    except (KeyError, ValueError):
        return None
