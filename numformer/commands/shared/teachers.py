"""The teacher of a run: a model that another run trained, read from that run."""

from pathlib import Path

from numformer.commands import UsageError
from numformer.runs import load_run
from numformer.runs.checkpoint import checksum


def with_teacher(task, tokenizer, folder):
    """A task with the teacher of --from.

    Parameters
    ----------
    task : Task
        With `teachers`.
    tokenizer : Tokenizer
        Of the task.
    folder : path
        A run.

    Returns
    -------
    task : Task
    teacher : dict
        For the checkpoint: its run, and the checksum of its model.

    Raises
    ------
    UsageError
        If it is no run, or one of another task or tokenizer.
    """
    model, own_tokenizer, facts, own_task = load_run(folder)
    if own_task.name not in task.teachers:
        raise UsageError(f"--from {folder}: its model, a {facts['model']['kind']}, was trained on "
                         f"the task {own_task.name}; give a teacher trained on "
                         f"{' or '.join(task.teachers)}.")
    if own_tokenizer.to_json() != tokenizer.to_json():
        raise UsageError(f"--from {folder}: its tokenizer is another than that of the task "
                         f"{task.name}; give a teacher that reads the same tokens.")
    teacher = {"run": str(Path(folder).resolve()), "sha256": sum_of(facts, model)}
    return task.with_teacher(model), teacher


def with_teacher_again(task, teacher):
    """A task with the teacher that a checkpoint names.

    Raises
    ------
    UsageError
        If it is not there, or not as it was.
    """
    folder = Path(teacher["run"])
    if not (folder / "checkpoint.safetensors").exists():
        raise UsageError(f"the teacher of this run is missing: there is no run in {folder}; put it "
                         "back there.")
    model, _, facts, _ = load_run(folder)
    if sum_of(facts, model) != teacher["sha256"]:
        raise UsageError(f"the teacher of this run, {folder}, has other weights than when the run "
                         "began; put back those, or begin a new run with --from.")
    return task.with_teacher(model)


def check_student(config, task):
    """UsageError if a student of this config cannot learn from the teacher of its task."""
    try:
        task.check_student(config)
    except ValueError as error:
        raise UsageError(str(error)) from None


def sum_of(facts, model):
    """The checksum of a model's config, recipe and weights."""
    arrays = ((name, parameter.data.dtype, parameter.data.shape, [parameter.data.tobytes()])
              for name, parameter in sorted(model.named_parameters()))
    return checksum({name: facts[name] for name in ("model", "recipe")}, arrays)
