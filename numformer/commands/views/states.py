"""The states of a training: the models of its snapshots, one after the other."""

from pathlib import Path

from numformer.commands import UsageError
from numformer.finite import check_finite
from numformer.parameter import part_of
from numformer.runs import CheckpointError, Snapshots, check_arrays, load_checkpoint, load_run
from numformer.runs.load_run import MISSHAPEN, blame


class States:
    """The states of a run: its snapshots and, if it is later, the last checkpoint.

    A run without snapshots may have two states: the best and the last checkpoint.

    Parameters
    ----------
    folder : path
    most : int, optional
        Of more states, this number is chosen, evenly spaced, with the first and the last.

    Attributes
    ----------
    model, tokenizer, facts, task
        From `load_run`: of the last checkpoint.
    paths : dict of int to Path
        By the step.
    from_snapshots : bool

    Raises
    ------
    UsageError
        If there are less than two.
    CheckpointError
        If one is broken.
    """

    def __init__(self, folder, most=None):
        folder = Path(folder)
        self.model, self.tokenizer, self.facts, self.task = load_run(folder)
        last, best = folder / "checkpoint.safetensors", folder / "best.safetensors"
        self.last_step = _step_of(last, self.facts)
        self.paths = {step: path for step, path in Snapshots(folder).files().items()
                      if step <= self.last_step}
        self.from_snapshots = bool(self.paths)
        if not self.paths and best.exists():
            self.paths[_step_of(best, load_checkpoint(best)[1])] = best
        self.paths.setdefault(self.last_step, last)
        if len(self.paths) < 2:
            raise UsageError(f"{folder} has one state, its checkpoint; a film shows several: train "
                             "with numformer train --snapshots 40.")
        if most is not None and len(self.paths) > most:
            steps, ends = list(self.paths), len(self.paths) - 1
            chosen = [steps[round(k * ends / (most - 1))] for k in range(most)]
            self.paths = {step: self.paths[step] for step in chosen}

    @property
    def steps(self):
        """The steps of the states, rising."""
        return list(self.paths)

    def at(self, step):
        """The model with the weights of that step: the same object each time."""
        path = self.paths[step]
        arrays, facts = load_checkpoint(path)
        if _step_of(path, facts) != step:
            raise CheckpointError(f"{path} holds step {_step_of(path, facts)}, but is named "
                                  f"{step}; rename it, or remove it.")
        kind = self.facts["model"]["kind"]
        with blame(path, MISSHAPEN):
            check_arrays(kind, self.model.config, arrays)
            self.model.load_state_dict(part_of(arrays, "model."))
        check_finite(f"{path}: parameter", part_of(arrays, "model.").items())
        return self.model


def _step_of(path, facts):
    """The step of a checkpoint or snapshot."""
    step = facts.get("step", (facts.get("progress") or {}).get("step"))
    if type(step) is not int or step < 0:
        raise CheckpointError(f"{path} does not say after which step it was written; was it "
                              "imported?")
    return step
