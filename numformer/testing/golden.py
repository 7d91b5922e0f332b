"""Golden vectors: inputs and results in one file, for tests in other languages.

The file is an `.npz`, a zip of arrays in NumPy's format. `index` holds JSON as bytes: a list of
cases, each with its kind, name, level, and the options and scalars. The arrays of case 7 of a
`linear` are `7.x`, `7.weight`, `7.bias`, `7.y`, `7.dy`, `7.dx`, `7.dweight`, `7.dbias`. An
attention pattern is an object with its rules, and the mask that they make, `7.pattern`, True where
a query may attend. Of a layer, the weights are `7.parameters.NAME`; of an optimizer, the gradients
of all steps `7.gradients.0` and the parameters after each `7.after.0`.
"""

import json
import zipfile
from dataclasses import fields, replace

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.files import GIB, open_file, parse_json
from numformer.functional import AttentionPattern
from numformer.specifications import PROBLEMS, Instance, find_problem
from numformer.testing.golden_case import GoldenCase

FORMATS = "numformer golden vectors, version 1", "numformer golden vectors, version 2"
ALL = {"layers": "layer", "models": "model", "optimizers": "optimizer"}
PARTS = ("parameters", "results", "gradients")


def write_golden(path, names=None, seed=0, dtype="float64"):
    """Write golden vectors of functions, layers, models and optimizers, and of their gradients.

    Parameters
    ----------
    path : path
        Of the file, which should end in `.npz`.
    names : sequence of str, optional
        Functions, such as "softmax"; "layer:NAME" and "model:NAME" with a name that `numformer
        audit` prints; "optimizer:NAME"; or "functions", "layers", "models" and "optimizers" for all
        of a kind. Everything by default. What needs a random generator, or has several outputs, is
        left out.
    seed : int
        The same seed gives the same numbers.
    dtype : "float64" or "float32"
        Of arguments, weights and dy; y and the gradients are computed in float64 from these.

    Returns
    -------
    dict of str to str
        What was left out, and why.

    Raises
    ------
    ValueError
        If a name is unknown, or all of it is left out.

    See Also
    --------
    read_golden, numformer.testing.assert_matches
    """
    check_choice("write_golden", "dtype", dtype, ["float64", "float32"])
    check_whole("write_golden", "seed", seed, least=0)
    index, arrays, left_out = [], {}, {}
    for name in [*ALL, "functions"] if names is None else names:
        found, reasons = _cases(name, seed, dtype)
        if not found:
            raise ValueError(f"write_golden: {name} is left out: "
                             f"{'; '.join(sorted(set(reasons.values())))}.")
        left_out |= reasons
        for case in found:
            entry, own = _stored(case)
            arrays.update({f"{len(index)}.{key}": x for key, x in own.items()})
            index.append(entry)
    text = json.dumps({"format": FORMATS[-1], "seed": seed, "dtype": dtype, "cases": index})
    with open(path, "wb") as file:
        np.savez_compressed(file, index=np.frombuffer(text.encode(), np.uint8), **arrays)
    return left_out


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
            if index["format"] not in FORMATS:
                raise ValueError(f"{path} has another format than {FORMATS[-1]!r}")
            return [_read(entry, number, stored) for number, entry in enumerate(index["cases"])]
    except (KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no golden vectors ({error}); write it again with "
                         "write_golden.") from None


def _cases(name, seed, dtype):
    """(the cases of a name, {what was left out: why})."""
    kind, colon, own = name.partition(":")
    if name == "functions":
        found = [_of_function(each, seed, dtype) for each in PROBLEMS]
    elif name in ALL or colon:
        from numformer.testing.golden_layers import CASES, case_of   # the registry of everything

        kind = ALL.get(name, kind)
        check_choice("write_golden", "kind", kind, list(CASES))
        if colon:
            check_choice("write_golden", kind, own, list(CASES[kind]))
        found = []
        for each in [own] if colon else CASES[kind]:
            case, reason = case_of(kind, each, seed, dtype)
            found.append(([case], {}) if case else ([], {f"{kind}:{each}": reason}))
    else:
        found = [_of_function(name, seed, dtype)]
    return sum((cases for cases, _ in found), []), {
        key: reason for _, reasons in found for key, reason in reasons.items()}


def _of_function(name, seed, dtype):
    """(the cases of a function, {its levels that were left out: why})."""
    base, problem, _ = find_problem(name)
    base = base.removesuffix("_backward")
    levels = {key: replace(level, dtype=np.dtype(dtype).type) for key, level
              in problem.levels.items() if not level.arrange and level.dy == 1}
    problem, found, left_out = replace(problem, levels=levels), [], {}
    for level, kind in levels.items():
        case, reason = _case(base, Instance(problem, level, seed)) if kind.required else (
            None, "it goes beyond what a function must do")
        if case is None:
            left_out[f"{base}, {level}"] = reason
        else:
            found.append(case)
    return found, left_out


def _case(name, instance):
    """(the case of an instance, ""), or (None, why it cannot be stored)."""
    arguments, options = instance.arguments()
    y, _, gradients = instance.exact
    plain = (np.ndarray, np.number, float, int, str, type(None), AttentionPattern)
    for key, x in {"y": y, **arguments, **options}.items():
        if not isinstance(x, plain):
            return None, f"{key} is a {type(x).__name__}"
    return GoldenCase(name, instance.level, arguments, options, np.asarray(y),
                      np.asarray(instance.dy()),
                      {key: np.asarray(x) for key, x in gradients.items()}), ""


def _stored(case):
    """(the entry of the index, the arrays) of a case."""
    arrays = {key: x for key, x in (("y", case.y), ("dy", case.dy)) if x is not None}
    entry = {key: getattr(case, key) for key in ("kind", "name", "level", "text")}
    for part in PARTS:
        prefix = "parameters." if part == "parameters" else ""
        arrays |= {prefix + key: x for key, x in getattr(case, part).items()}
        entry[part] = list(getattr(case, part))

    def stored(key, x):
        if isinstance(x, np.ndarray):
            arrays[key] = x
            return {"array": key}
        if isinstance(x, AttentionPattern):
            arrays[key] = x.dense(*_lengths(case))
            rules = {rule.name: getattr(x, rule.name) for rule in fields(x)}
            return {"pattern": {rule: stored(f"{key}.{rule}", value)
                                for rule, value in rules.items() if value is not None}}
        return x.item() if isinstance(x, (np.number, np.bool_)) else x

    for kind in ("arguments", "options"):
        entry[kind] = {key: stored(key, x) for key, x in getattr(case, kind).items()}
    return entry, arrays


def _lengths(case):
    """(T, S): the numbers of queries and of keys."""
    arrays = [x for x in case.arguments.values() if isinstance(x, np.ndarray)]
    if "k" in case.arguments:
        return case.arguments["q"].shape[-2], case.arguments["k"].shape[-2]
    T = arrays[0].shape[1]
    return T, arrays[1].shape[1] if len(arrays) > 1 and arrays[1].ndim == 3 else T


def _read(entry, number, stored):
    def value(x):
        if isinstance(x, dict) and "pattern" in x:
            rules = {rule: value(each) for rule, each in x["pattern"].items()}
            return AttentionPattern(**{rule: tuple(each) if rule == "window" else each
                                       for rule, each in rules.items()})
        return stored[f"{number}.{x['array']}"] if isinstance(x, dict) else x

    case = GoldenCase(entry["name"], entry["level"], kind=entry.get("kind", "function"),
                      text=entry.get("text", ""))
    case.arguments = {key: value(x) for key, x in entry["arguments"].items()}
    case.options = {key: value(x) for key, x in entry["options"].items()}
    if f"{number}.y" in stored:
        case.y, case.dy = stored[f"{number}.y"], stored[f"{number}.dy"]
    for part in PARTS:
        prefix = "parameters." if part == "parameters" else ""
        setattr(case, part, {key: stored[f"{number}.{prefix}{key}"]
                             for key in entry.get(part, ())})
    return case
