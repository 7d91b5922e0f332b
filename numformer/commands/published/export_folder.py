"""numformer export: the model of a run becomes a folder that other libraries load."""

import sys

from numformer.commands.shared.output import print_json
from numformer.commands.shared.padded_tokenizer import PaddedTokenizer
from numformer.commands.shared.runs import add_run_arguments, load_run, show_text
from numformer.interop import FAMILIES, family_of, save


def add_arguments(parser):
    add_run_arguments(parser)
    parser.add_argument("--out", metavar="FOLDER", required=True, help="folder to write: "
                        "config.json, model.safetensors and the tokenizer")
    parser.add_argument("--family", choices=list(FAMILIES), default=None, help="which published "
                        "architecture, if the model fits several (default: the first that fits)")
    parser.add_argument("--no-tokenizer", action="store_true",
                        help="write the weights alone")


def run(arguments):
    model, tokenizer, _, _ = load_run(arguments.run, arguments.best)
    if isinstance(tokenizer, PaddedTokenizer):
        tokenizer = tokenizer.tokenizer
    save(model, None if arguments.no_tokenizer else tokenizer, arguments.out, arguments.family)
    family = family_of(model, arguments.family).name
    show_text(f"{arguments.out}: a {family}.\n", sys.stdout)
    if arguments.json:
        print_json({"folder": str(arguments.out), "family": family})
    return 0
