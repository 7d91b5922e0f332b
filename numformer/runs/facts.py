"""Check the facts of a checkpoint before anything is built from them.

A checksum shows that a file is as it was written, not who wrote it: the facts may ask for a model
of any size. Their types, ranges and sizes are compared with each other and with the arrays.
"""

import math
import re
from dataclasses import fields

from numformer.analysis.counting import model_of_shapes
from numformer.checks import check_whole
from numformer.config import plain_type
from numformer.interop.published_files import check_published
from numformer.models import KINDS
from numformer.parameter import Layer, part_of, some_of
from numformer.training import TrainingConfig
from numformer.training.trainer import PROGRESS

KEYS = {"preset", "task", "data", "model", "recipe", "training", "tokenizer", "from", "teacher",
        "before", "progress", "blas", "published", "frozen"}
DATA = ("argument", "name", "sha256", "characters")
LEAST_LIMIT = 2**17                                   # for sizes without arrays: context, window
SPARE = 2**10                                         # arrays and numbers more than there are
MOST_SHARDS = 64                                      # where the batch is smaller


def check_facts(facts):
    """ValueError, KeyError or TypeError if the facts do not describe a run; else its training.

    Returns
    -------
    TrainingConfig
    """
    _known("the facts", facts, KEYS)
    _known("model", facts["model"], {"kind", "config"})
    _known("data", facts["data"], set(DATA))
    missing = [key for key in DATA if key not in facts["data"]]
    if missing:
        raise ValueError(f"data is without {', '.join(missing)}")
    data = facts["data"]
    argument = "" if data["argument"] is None else data["argument"]
    for key, value in (("preset", facts.get("preset", "")), ("from", facts.get("from", "")),
                       ("blas", facts.get("blas", "")), ("data.name", data["name"]),
                       ("data.argument", argument)):
        if not isinstance(value, str) or "\0" in value:
            raise ValueError(f"{key} is {value!r}, but must be a text")
    _check_digits("data", data)
    check_whole("data", "characters", data["characters"], least=0)
    check_published(facts.get("published", {}))
    if "teacher" in facts:
        _known("teacher", facts["teacher"], {"run", "sha256"})
        run = facts["teacher"]["run"]
        if not isinstance(run, str) or "\0" in run:
            raise ValueError(f"teacher.run is {run!r}, but must be a text")
        _check_digits("teacher", facts["teacher"])
    frozen = facts.get("frozen", [])
    if not isinstance(frozen, list) or not all(isinstance(name, str) for name in frozen):
        raise ValueError(f"frozen is {frozen!r}, but must be a list of names")
    before = facts.get("before", {})
    if not isinstance(before, dict):
        raise ValueError(f"before is a {type(before).__name__}, but must be measures by name")
    for name, value in before.items():
        _check_number(f"before.{name}", value)
    training = TrainingConfig.from_dict(facts["training"])
    if training.shards > max(training.batch_size, MOST_SHARDS):
        raise ValueError(f"shards={training.shards} must be at most batch_size="
                         f"{training.batch_size}")
    _check_progress(facts.get("progress"), training)
    return training


def _known(owner, part, keys):
    if not isinstance(part, dict) or not part.keys() <= keys:
        unknown = sorted(set(part) - keys) if isinstance(part, dict) else type(part).__name__
        raise ValueError(f"{owner} must hold {', '.join(sorted(keys))}, but not {unknown}")


def _check_digits(name, part):
    digits = part["sha256"]
    if not isinstance(digits, str) or not re.fullmatch("[0-9a-f]{64}", digits):
        raise ValueError(f"{name}.sha256 is {digits!r}, but must be 64 digits")


def _check_number(name, value):
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}, but must be a number")


def _check_progress(progress, training):
    if not isinstance(progress, dict) or progress.keys() != PROGRESS.keys():
        raise ValueError(f"progress must hold {', '.join(PROGRESS)}")
    for name in ("step", "n_targets", "worse"):
        check_whole("progress", name, progress[name], least=0)
    for name in ("evaluated_at", "best_step"):
        if progress[name] is not None:
            check_whole("progress", name, progress[name], least=0)
    for name in ("val_loss", "best_loss"):
        if progress[name] is not None:
            _check_number(f"progress.{name}", progress[name])
    step = progress["step"]
    if step > training.steps:
        raise ValueError(f"step={step} must be at most steps={training.steps}")
    if max(progress["evaluated_at"] or 0, progress["best_step"] or 0) > step:
        raise ValueError(f"a validation is later than step={step}")
    if (progress["best_loss"] is None) != (progress["best_step"] is None):
        raise ValueError("best_loss and best_step must be given together")


def check_arrays(kind, config, arrays):
    """ValueError if a model of this config has other parameters than a checkpoint has arrays.

    Nothing is allocated: first every size is compared with the number of values in the arrays, then
    a model without values is built for its names and shapes, with few more arrays than there are.

    Parameters
    ----------
    kind : str
    config : Config
    arrays : dict of str to ndarray
        All arrays of the checkpoint.
    """
    shapes = {name: array.shape for name, array in part_of(arrays, "model.").items()}
    unexpected = [name for name in arrays if not name.startswith(("model.", "optimizer."))]
    if unexpected:
        raise ValueError(f"unexpected: {', '.join(unexpected[:5])}.")
    if not issubclass(KINDS[kind][0], Layer):         # counts: their own check knows their sizes
        return
    values = sum(array.size for array in part_of(arrays, "model.").values())
    for field in fields(config):
        value = getattr(config, field.name)
        is_size = type(value) is int and plain_type(field.type)[0] is not float
        if is_size and value > max(values, LEAST_LIMIT):
            raise ValueError(f"{field.name}={value}, but there are {len(shapes)} arrays with "
                             f"{values} values.")
    expected = {name: parameter.data.shape
                for name, parameter in model_of_shapes(
                    config, 2 * len(shapes) + SPARE, 2 * values + SPARE).named_parameters()}
    missing = [name for name in expected if name not in shapes]
    more = [name for name in shapes if name not in expected]
    if missing or more:
        raise ValueError(f"missing: {some_of(missing)}; unexpected: {some_of(more)}.")
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise ValueError(f"{name} has shape {shapes[name]}, but must have {shape}.")
