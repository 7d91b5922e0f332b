"""Read the metrics of a run: a line of JSON for each step and each validation."""

import math

from numformer.files import MIB, FileError, open_file, parse_json

MOST = 256 * MIB                                      # of the file
MOST_LINE = MIB                                       # of a line, with its newline
MOST_LINES = 2_000_000
NUMBERS = ("loss", "learning_rate", "gradient_norm")  # of a step
BY_NAME = ("update_ratio", "facts")                   # numbers by name, of some steps


def read_metrics(path, until=None):
    """The metrics of a file, line by line.

    A last line without its newline was cut short, and is left out.

    Parameters
    ----------
    path : path
        May not exist: then there are no metrics.
    until : int, optional
        The step of the checkpoint to be continued from. The lines after it are of no use; so
        reading ends at the first line there that was damaged, as by a loss of power.

    Returns
    -------
    list of dict

    Raises
    ------
    FileError
        If it is no regular file, too large, or a line is no line of metrics; it names the line.
    """
    lines, last = [], {"loss": 0, "val_loss": -1}     # the last step with each of the two
    try:
        with open_file(path, MOST) as file:
            for number in range(1, MOST_LINES + 2):
                data = file.readline(MOST_LINE + 1)
                if len(data) <= MOST_LINE and not data.endswith(b"\n"):
                    break
                try:
                    metrics = _checked(data, last, number)
                except ValueError as error:
                    if until is not None and max(last.values()) >= until:
                        break
                    raise FileError(f"{path}, line {number}: {error}; remove that line, or move "
                                    "the file away.") from None
                last["loss" if "loss" in metrics else "val_loss"] = metrics["step"]
                lines.append(metrics)
    except FileNotFoundError:
        return []
    return lines


def _checked(data, last, number):
    """The metrics of a line; ValueError if it holds none."""
    if len(data) > MOST_LINE:
        raise ValueError(f"it has more than {MOST_LINE} bytes")
    if number > MOST_LINES:
        raise ValueError(f"there are more than {MOST_LINES} lines")
    metrics = parse_json(data)
    if not isinstance(metrics, dict) or ("loss" in metrics) == ("val_loss" in metrics):
        raise ValueError("it must hold a step with either a loss or a val_loss")
    kind = "loss" if "loss" in metrics else "val_loss"
    unknown = metrics.keys() - {"step", *(("val_loss",) if kind == "val_loss"
                                          else (*NUMBERS, *BY_NAME))}
    if unknown:
        raise ValueError(f"unknown: {sorted(unknown)}")
    step = metrics.get("step")
    if type(step) is not int or not last[kind] < step < 2**53:
        raise ValueError(f"the step is {step!r}, after {last[kind]}")
    numbers = [(name, value) for name, value in metrics.items() if name not in BY_NAME]
    for kind in BY_NAME:
        named = metrics.get(kind, {})
        if not isinstance(named, dict):
            raise ValueError(f"{kind} is {named!r}")
        numbers += named.items()
    for name, value in numbers:
        if not (type(value) in (int, float) and math.isfinite(value)):
            raise ValueError(f"{name} is {value!r}, but must be a number")
    return metrics
