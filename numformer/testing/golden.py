"""Golden vectors: inputs and results of functions in one file, for tests in other languages.

The file is an `.npz`, a zip of arrays in NumPy's format. `index` holds JSON as bytes: a list of
cases, each with its function, its level, and the options and scalars. The arrays of case 7 of a
`linear` are `7.x`, `7.weight`, `7.bias`, `7.y`, `7.dy`, `7.dx`, `7.dweight`, `7.dbias`.
"""

import json
import zipfile
from dataclasses import dataclass, field, replace

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.files import GIB, open_file, parse_json
from numformer.specifications import PROBLEMS, Instance, find_problem

FORMAT = "numformer golden vectors, version 1"


@dataclass
class GoldenCase:
    """One case of a file of golden vectors.

    Parameters
    ----------
    name, level : str
        The function, and the level of its problem.
    arguments : dict
        Arrays and scalars by name, in the order of the function.
    options : dict
        Keyword arguments.
    y : ndarray
        The result.
    dy : ndarray
        A gradient of y.
    gradients : dict
        The gradients of the arguments for this dy: "dx" and so on.
    """

    name: str
    level: str
    arguments: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    y: object = None
    dy: object = None
    gradients: dict = field(default_factory=dict)


def write_golden(path, names=None, seed=0, dtype="float64"):
    """Write golden vectors of functions and their gradients.

    Parameters
    ----------
    path : path
        Of the file, which should end in `.npz`.
    names : sequence of str, optional
        Functions; all by default. Levels whose arguments are neither arrays nor numbers nor text,
        such as a random generator or an attention pattern, are left out.
    seed : int
        The same seed gives the same numbers.
    dtype : "float64" or "float32"
        Of the arguments and of dy; y and the gradients are computed in float64 from these.

    Raises
    ------
    ValueError
        If a name is unknown, or all its levels are left out.

    See Also
    --------
    read_golden, numformer.testing.assert_matches
    """
    check_choice("write_golden", "dtype", dtype, ["float64", "float32"])
    check_whole("write_golden", "seed", seed, least=0)
    index, arrays = [], {}
    for name in PROBLEMS if names is None else names:
        base, problem, _ = find_problem(name)
        base = base.removesuffix("_backward")
        problem = replace(problem, levels={
            key: replace(level, dtype=np.dtype(dtype).type)
            for key, level in problem.levels.items()})
        cases = [_case(base, Instance(problem, level, seed)) for level, kind
                 in problem.levels.items() if kind.required and not kind.arrange and kind.dy == 1]
        found = [case for case in cases if case is not None]
        if not found and names is not None:
            raise ValueError(f"write_golden: {name} has arguments that are neither arrays nor "
                             "numbers; leave it out.")
        for case in found:
            entry, own = _stored(case)
            arrays.update({f"{len(index)}.{key}": x for key, x in own.items()})
            index.append(entry)
    text = json.dumps({"format": FORMAT, "seed": seed, "dtype": dtype, "cases": index})
    with open(path, "wb") as file:
        np.savez_compressed(file, index=np.frombuffer(text.encode(), np.uint8), **arrays)


def read_golden(path):
    """The cases of a file that `write_golden` wrote: a list of `GoldenCase`.

    Raises
    ------
    ValueError
        If it is no such file.
    OSError
        If it cannot be read.
    """
    try:
        with open_file(path, most=GIB) as file, np.load(file, allow_pickle=False) as stored:
            index = parse_json(stored["index"].tobytes())
            if index["format"] != FORMAT:
                raise ValueError(f"{path} has another format than {FORMAT!r}")
            return [_read(entry, number, stored) for number, entry in enumerate(index["cases"])]
    except (KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no golden vectors ({error}); write it again with "
                         "write_golden.") from None


def _case(name, instance):
    """The case of an instance; None if it cannot be stored."""
    arguments, options = instance.arguments()
    y, _, dy, gradients = instance.reference()
    plain = (np.ndarray, np.number, float, int, str, type(None))
    if not all(isinstance(x, plain) for x in [y, *arguments.values(), *options.values()]):
        return None
    return GoldenCase(name, instance.level, arguments, options, np.asarray(y), np.asarray(dy),
                      {key: np.asarray(x) for key, x in gradients.items()})


def _stored(case):
    """(the entry of the index, the arrays) of a case."""
    arrays = {"y": case.y, "dy": case.dy, **case.gradients}
    entry = {"name": case.name, "level": case.level, "gradients": list(case.gradients)}
    for kind in ("arguments", "options"):
        entry[kind] = {}
        for key, x in getattr(case, kind).items():
            if isinstance(x, np.ndarray):
                arrays[key], entry[kind][key] = x, {"array": key}
            else:
                entry[kind][key] = x.item() if isinstance(x, np.number) else x
    return entry, arrays


def _read(entry, number, stored):
    def value(x):
        return stored[f"{number}.{x['array']}"] if isinstance(x, dict) else x

    case = GoldenCase(entry["name"], entry["level"])
    case.arguments = {key: value(x) for key, x in entry["arguments"].items()}
    case.options = {key: value(x) for key, x in entry["options"].items()}
    case.y, case.dy = stored[f"{number}.y"], stored[f"{number}.dy"]
    case.gradients = {key: stored[f"{number}.{key}"] for key in entry["gradients"]}
    return case
