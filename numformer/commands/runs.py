"""Reading a run back: its model, tokenizer and text."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np

from numformer.commands import UsageError
from numformer.datasets import DOCUMENTATION, TINY_SHAKESPEARE, DataError
from numformer.models import KINDS
from numformer.tasks import TASKS
from numformer.tokenizers import tokenizer_from_json
from numformer.training import CheckpointError, load_checkpoint, part_of

UNKNOWN = "does not describe a run of this version:"
MISSHAPEN = "holds a model of another shape than its config says."


def add_run_arguments(parser):
    """RUN and which of its checkpoints."""
    parser.add_argument("run", metavar="RUN", help="folder of a run")
    parser.add_argument("--best", action="store_true", help="the checkpoint of the lowest validation loss, instead of the last")


def add_text_argument(parser):
    """What a run's model is looked at with."""
    parser.add_argument("--text", default=None, help="what the model reads (default: something that was held out, or that it wrote); "
                        "of vit the number of an image")


def read_facts(facts, path):
    """(task, kind of the model, its config, tokenizer) of a checkpoint's facts.

    Raises
    ------
    CheckpointError
        If facts are missing, or tell of a task, model, tokenizer or settings that this version does not know.
    """
    with blame(path, UNKNOWN):
        kind, task = facts["model"]["kind"], facts.get("task", "text")        # the first runs had no other task
        if task not in TASKS:
            raise ValueError(f"its task is {task}")
        if kind not in TASKS[task].kinds:
            raise ValueError(f"its model is called {kind!r}")
        for part, keys in {"data": ("argument", "name", "sha256", "characters"), "training": ("steps",)}.items():
            missing = [key for key in keys if key not in facts[part]]
            if missing:
                raise ValueError(f"{part} is without {', '.join(missing)}")
        tokenizer = tokenizer_from_json(facts["tokenizer"]) if TASKS[task].tokens else None
        return TASKS[task], kind, KINDS[kind][1].from_dict(facts["model"]["config"]), tokenizer


@contextmanager
def blame(path, complaint):
    """What does not fit inside this with statement is the fault of the checkpoint at `path`: a CheckpointError."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} {complaint} {error}") from None


def load_run(folder, best=False):
    """The model of a run, as it was last saved.

    Parameters
    ----------
    folder : path
    best : bool
        The checkpoint of the lowest validation loss, instead of the last.

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
    """
    path = Path(folder) / ("best.safetensors" if best else "checkpoint.safetensors")
    if not path.is_file():
        raise UsageError(f"there is no {path}; give the folder of a run, such as `numformer train` made.")
    arrays, facts = load_checkpoint(path)
    task, kind, config, tokenizer = read_facts(facts, path)
    model = KINDS[kind][0](config, np.random.default_rng(0))
    with blame(path, MISSHAPEN):
        model.load_state_dict(part_of(arrays, "model."))
    return model, tokenizer, facts, task


def data_argument(data):
    """How a checkpoint remembers `--data`: by name, or by absolute path."""
    return data if data in (DOCUMENTATION, TINY_SHAKESPEARE, None) and not Path(data or "").is_file() else str(Path(data).resolve())


def run_material(task, facts, data=None):
    """The material that a run was begun with, from where it lay then or from `data`.

    Raises
    ------
    UsageError
        If the material there is another one by now.
    DataError
        If there is none.
    """
    try:
        material = task.load(facts["data"]["argument"] if data is None else data)
    except DataError as error:
        raise type(error)(f"the text of this run: {error}") from None
    if material.sha256 != facts["data"]["sha256"]:
        raise UsageError(f"{material.name} is not the text that the run was begun with, {facts['data']['name']} of "
                         f"{facts['data']['characters']} characters; give that one with --data.")
    return material


def show_text(text, stream):
    """Write text at once; what the stream's encoding cannot show becomes a question mark."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()
