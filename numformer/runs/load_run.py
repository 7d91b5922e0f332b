"""Load a run: its model, tokenizer and corpus."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np

from numformer.data import DOCUMENTATION, TINY_SHAKESPEARE, WORLD, DataError, tokenizer_from_json
from numformer.finite import check_finite
from numformer.models import KINDS
from numformer.parameter import part_of, some_of
from numformer.recipes import TASKS, kinds_of, recipe_of
from numformer.runs.checkpoint import CheckpointError
from numformer.runs.facts import check_arrays, check_facts
from numformer.runs.load_checkpoint import load_checkpoint
from numformer.runs.padded_tokenizer import PaddedTokenizer, is_padded

UNKNOWN = "does not describe a run of this version:"
MISSHAPEN = "contains arrays whose shapes do not match its config:"


class RunError(Exception):
    """There is no run, or its corpus is another one; the message names the cure."""


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
        if not isinstance(kind, str) or kind not in kinds_of(TASKS[task]):
            raise ValueError(f"its model is called {kind!r}")
        tokenizer = tokenizer_from_json(facts["tokenizer"]) if TASKS[task].has_tokens else None
        config = KINDS[kind][1].from_dict(facts["model"]["config"])
        recipe = recipe_of(kind, facts["recipe"])
        recipe.check(config)
        task = TASKS[task].with_recipe(recipe, facts.get("published"))
        if task.default_data is not None and facts["data"]["argument"] is None:
            raise ValueError("data.argument is null, but must name the text of the run")
        if task.has_tokens and is_padded(tokenizer, config.vocab_size):
            tokenizer = PaddedTokenizer(tokenizer, config.vocab_size)
        check_options(task, tokenizer, config)
        unknown = [name for name in facts.get("frozen", []) if f"model.{name}" not in arrays]
        if unknown:
            raise ValueError(f"frozen has names without an array: {some_of(unknown)}")
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
    RunError
        If there is no run in that folder.
    CheckpointError
        If its checkpoint is broken.
    NotFinite
        If a parameter holds NaN or infinity.
    """
    path = Path(folder) / ("best.safetensors" if best else "checkpoint.safetensors")
    if not path.exists() and not path.is_symlink():
        raise RunError(f"there is no {path}; give the folder of a run that `numformer train` "
                         "wrote.")
    arrays, facts = load_checkpoint(path)
    task, kind, config, tokenizer = read_facts(arrays, facts, path)
    with blame(path, UNKNOWN):
        model = task.recipe.model(kind, config, np.random.default_rng(0))
        if facts.get("frozen"):
            model.freeze(*facts["frozen"])
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
    RunError
        If the corpus there has changed.
    DataError
        If there is no corpus.
    """
    try:
        corpus = task.load(facts["data"]["argument"] if data is None else data)
    except DataError as error:
        raise type(error)(f"the text of this run: {error}") from None
    if corpus.sha256 != facts["data"]["sha256"]:
        if task.default_data is None:
            raise RunError(f"this run has learned from other data than the {corpus.name} of this "
                           "version; train it again.")
        raise RunError(f"{corpus.name} is not the text of this run, {facts['data']['name']} with "
                         f"{facts['data']['characters']} characters; give that one with --data.")
    return corpus
