"""Load a run: its model, tokenizer and corpus."""

import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from numformer.commands import UsageError
from numformer.commands.shared.facts import check_arrays, check_facts
from numformer.commands.shared.padded_tokenizer import PaddedTokenizer, is_padded
from numformer.data import DOCUMENTATION, TINY_SHAKESPEARE, WORLD, DataError
from numformer.finite import check_finite
from numformer.functional.quantization import SMALLER_WEIGHTS
from numformer.models import KINDS
from numformer.recipes import TASKS, recipe_of
from numformer.data import tokenizer_from_json
from numformer.terminal import printable
from numformer.training import CheckpointError, load_checkpoint, part_of

UNKNOWN = "does not describe a run of this version:"
MISSHAPEN = "contains arrays whose shapes do not match its config:"


def add_run_arguments(parser):
    """Add RUN and --best."""
    parser.add_argument("run", metavar="RUN", help="folder of a run")
    parser.add_argument("--best", action="store_true", help="use the checkpoint with the lowest "
                        "validation loss instead of the last")


def add_weights_argument(parser, why):
    """Add --weights."""
    parser.add_argument("--weights", choices=["float32", *SMALLER_WEIGHTS], default="float32",
                        help=f"{why}; float32 stands for weights as they are (default: float32)")


def smaller_weights(arguments):
    """What --weights says: "bfloat16", "int8", or None."""
    return None if arguments.weights == "float32" else arguments.weights


def add_text_argument(parser):
    """Add --text, the input of the model."""
    parser.add_argument("--text", default=None, help="input of the model (default: held-out or "
                        "generated text); for vit the number of a test image")


def read_facts(arrays, facts, path):
    """(task with its recipe, kind of the model, its config, tokenizer) of a checkpoint.

    Raises
    ------
    CheckpointError
        If facts are missing or out of range, name a task, model, tokenizer or option unknown to
        this version, or do not fit each other or the arrays.
    """
    with blame(path, UNKNOWN):
        check_facts(facts)
        # the first runs did not name it
        kind, task = facts["model"]["kind"], facts.get("task", "text")
        if not isinstance(task, str) or task not in TASKS:
            raise ValueError(f"its task is {task!r}")
        if not isinstance(kind, str) or kind not in TASKS[task].kinds:
            raise ValueError(f"its model is called {kind!r}")
        tokenizer = tokenizer_from_json(facts["tokenizer"]) if TASKS[task].has_tokens else None
        config = KINDS[kind][1].from_dict(facts["model"]["config"])
        recipe = recipe_of(kind, facts["recipe"])
        recipe.check(config)
        task = TASKS[task].with_recipe(recipe)
        if task.default_data is not None and facts["data"]["argument"] is None:
            raise ValueError("data.argument is null, but must name the text of the run")
        if task.has_tokens and is_padded(tokenizer, config.vocab_size):
            tokenizer = PaddedTokenizer(tokenizer, config.vocab_size)
        check_options(task, tokenizer, config)
    with blame(path, MISSHAPEN):
        check_arrays(kind, config, arrays)
    return task, kind, config, tokenizer


def check_options(task, tokenizer, config):
    """ValueError if a model does not fit the data of its task."""
    for name, value in task.options(tokenizer).items():
        if getattr(config, name) != value:
            raise ValueError(f"its model has {name}={getattr(config, name)}, but its data {value}")


@contextmanager
def blame(path, complaint):
    """Turn errors inside this with statement into a CheckpointError that names the checkpoint."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError,
            RecursionError) as error:
        raise CheckpointError(f"{path} {complaint} {error}") from None


def load_run(folder, best=False):
    """Load the model of a run from its checkpoint.

    Parameters
    ----------
    folder : path
    best : bool
        Whether to load the checkpoint with the lowest validation loss instead of the last.

    Returns
    -------
    model : Layer
    tokenizer : Tokenizer or None
        None where the task has no tokens.
    facts : dict
        All facts of the checkpoint.
    task : Task

    Raises
    ------
    UsageError
        If there is no run in that folder.
    CheckpointError
        If its checkpoint is broken.
    NotFinite
        If a parameter holds NaN or infinity.
    """
    path = Path(folder) / ("best.safetensors" if best else "checkpoint.safetensors")
    if not path.exists() and not path.is_symlink():
        raise UsageError(f"there is no {path}; give the folder of a run that `numformer train` "
                         "wrote.")
    arrays, facts = load_checkpoint(path)
    task, kind, config, tokenizer = read_facts(arrays, facts, path)
    with blame(path, UNKNOWN):
        model = task.recipe.model(kind, config, np.random.default_rng(0))
    with blame(path, MISSHAPEN):
        model.load_state_dict(part_of(arrays, "model."))
    check_finite(f"{path}: parameter", part_of(arrays, "model.").items())
    return model, tokenizer, facts, task


def data_argument(data):
    """`--data` as stored in a checkpoint: a name, or an absolute path."""
    names = DOCUMENTATION, TINY_SHAKESPEARE, WORLD, None
    is_name = data in names and not Path(data or "").is_file()
    return data if is_name else str(Path(data).resolve())


def run_corpus(task, facts, data=None):
    """The corpus of a run, from its stored path or from `data`.

    Raises
    ------
    UsageError
        If the corpus there has changed.
    DataError
        If there is no corpus.
    """
    try:
        corpus = task.load(facts["data"]["argument"] if data is None else data)
    except DataError as error:
        raise type(error)(f"the text of this run: {error}") from None
    if corpus.sha256 != facts["data"]["sha256"]:
        raise UsageError(f"{corpus.name} is not the text of this run, {facts['data']['name']} with "
                         f"{facts['data']['characters']} characters; give that one with --data.")
    return corpus


def show_text(text, stream):
    """Write text and flush; characters that the stream cannot encode become question marks.

    A terminal would obey control characters of a generated text: it gets escapes for them.
    """
    encoding = stream.encoding or "utf-8"
    if stream is sys.stderr or stream.isatty():
        text = printable(text, keep="\n\t")
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()
