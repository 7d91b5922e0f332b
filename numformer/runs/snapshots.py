"""Snapshots of a training: the weights alone at chosen steps, dense at first."""

import json
import re
from pathlib import Path

import numpy as np

from numformer.checks import check_whole
from numformer.files import MIB, open_file, parse_json, remove_unfinished, write_atomically
from numformer.runs.checkpoint import CheckpointError, save_checkpoint

FEWEST, MOST = 2, 1000
_NAME = re.compile(r"(\d{1,12})\.safetensors")
_FILES = r"\d{1,12}\.safetensors|plan\.json"


def snapshot_steps(count, steps):
    """So many steps from 0 to the last, the ratio of neighbours as constant as integers allow.

    Parameters
    ----------
    count : int, at least 2
        Of snapshots; of a training with fewer steps, every step has one.
    steps : int
        Of the training.

    Returns
    -------
    list of int

    Raises
    ------
    ValueError, TypeError
        If a number is too small or no whole number.

    Examples
    --------
    >>> snapshot_steps(9, 640)
    [0, 1, 3, 7, 17, 42, 104, 258, 640]
    >>> snapshot_steps(9, 3)
    [0, 1, 2, 3]
    """
    check_whole("snapshot_steps", "count", count, least=FEWEST)
    check_whole("snapshot_steps", "steps", steps)
    chosen = [0, 1] if count > 2 and steps > 1 else [0]
    while chosen[-1] < steps:
        last, missing = chosen[-1], count - len(chosen)
        ratio = (steps / max(last, 1)) ** (1 / missing) if missing > 1 else 0
        chosen.append(max(last + 1, round(last * ratio)) if ratio else steps)
    return chosen


class Snapshots:
    """The folder ``snapshots`` of a run.

    Each snapshot, ``STEP.safetensors``, is a checkpoint without the optimizer, in the dtype of the
    weights: the model of a snapshot is the model at that step, bit for bit. Half precision would
    need half the space, but a text sampled from rounded weights may be another text. ``plan.json``
    holds the number of snapshots, by which a resumed run continues with the same steps.

    Parameters
    ----------
    run : path
        The folder of the run.
    """

    def __init__(self, run):
        self.path = Path(run) / "snapshots"
        self.plan = self.path / "plan.json"

    def begin(self, count):
        """Plan `count` snapshots, or none, for a new run; a killed one may have left its own."""
        self.continue_from(-1)
        self.plan.unlink(missing_ok=True)
        if count is None:
            return
        check_whole("Snapshots", "count", count, least=FEWEST)
        self.path.mkdir(exist_ok=True)
        write_atomically(self.plan, json.dumps({"snapshots": count}).encode() + b"\n")

    def count(self):
        """The number of snapshots that are planned; None for a run without them.

        Raises
        ------
        CheckpointError
            If plan.json does not hold it.
        """
        if not self.plan.exists():
            return None
        with open_file(self.plan, MIB) as file:
            try:
                count = parse_json(file.read())["snapshots"]
            except (ValueError, KeyError, TypeError):
                count = None
        if type(count) is not int or not FEWEST <= count <= MOST:
            raise CheckpointError(f"{self.plan} must hold the number of snapshots, {FEWEST} to "
                                  f'{MOST}, such as {{"snapshots": 40}}.')
        return count

    def files(self):
        """{step: path} of the snapshots there are, in the order of their steps."""
        found = ((_NAME.fullmatch(path.name), path) for path in self.path.glob("*.safetensors"))
        return dict(sorted((int(name[1]), path) for name, path in found if name))

    def continue_from(self, step):
        """Remove snapshots after a step, and temporary files of a run that was killed."""
        for later, path in self.files().items():
            if later > step:
                path.unlink()
        remove_unfinished(self.path, _FILES)

    def save(self, step, model):
        """Write the weights of a model, unless there is a snapshot of that step."""
        path = self.path / f"{step}.safetensors"
        if not path.exists():
            arrays = {f"model.{name}": np.asarray(array)
                      for name, array in model.state_dict().items()}
            save_checkpoint(path, arrays, {"step": step})
