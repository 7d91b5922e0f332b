"""How a verb chooses tokens: as its flags say, or the files of a published model, or as ours do."""

import sys

from numformer.checks import check_whole
from numformer.commands import UsageError
from numformer.generation import check_sampling
from numformer.interop import text_settings
from numformer.terminal import show_text

OWN_TEMPERATURE = 0.8


def add_sampling_arguments(parser, temperature=f"{OWN_TEMPERATURE}"):
    """Add --temperature, --top-k, --top-p and --seed; `temperature` is its default, in words."""
    parser.add_argument("--temperature", type=float, default=None, metavar="X", help="sampling "
                        "temperature; 0 for greedy (default: what the files of a published model "
                        f"say, or {temperature})")
    parser.add_argument("--top-k", type=int, default=None, metavar="K",
                        help="sample from the K most likely tokens")
    parser.add_argument("--top-p", type=float, default=None, metavar="P", help="sample from the "
                        "most likely tokens that sum to probability P")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="seed of the sampling (default: 0)")


def check_sampling_arguments(verb, arguments):
    """UsageError if a flag is out of range."""
    try:
        check_whole(verb, "--seed", arguments.seed, least=0)
        temperature = 1.0 if arguments.temperature is None else arguments.temperature
        check_sampling(temperature, arguments.top_k, arguments.top_p)
    except ValueError as error:
        raise UsageError(str(error)) from None


def sampling(arguments, facts, model, own=OWN_TEMPERATURE):
    """(temperature, top-k, top-p, ids that end a text); a line on stderr says what is published.

    Parameters
    ----------
    arguments : Namespace
    facts : dict
        Of the run.
    model : Layer
    own : float
        The temperature where neither flags nor files say one.
    """
    settings = text_settings(facts.get("published", {}), model.config.vocab_size)
    chosen = given = arguments.temperature, arguments.top_k, arguments.top_p
    asks = arguments.temperature == 0 or None not in given            # nothing is left to the files
    if not asks and (settings.temperature is not None or settings.unused):
        show_text(f"as the files of the model say: {settings}\n", sys.stderr)
        if settings.temperature or given == (None, None, None):
            chosen = [published if flag is None else flag for flag, published in zip(
                given, (settings.temperature, settings.top_k, settings.top_p))]
    temperature, top_k, top_p = chosen
    return own if temperature is None else temperature, top_k, top_p, settings.end
