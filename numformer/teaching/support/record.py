"""What a student's folder remembers: hints that were given, and attempts. It costs no points."""

import hashlib
import json
import os
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from numformer import __version__
from numformer.files import KIB, MIB, parse_json, read_file, write_atomically
from numformer.teaching.exercise import all_exercises
from numformer.teaching.judge import is_not_begun
from numformer.terminal import printable

RECORD = "progress.json"
MOST = 64 * KIB                                       # bytes of a record
MANY = 10 ** 6                                        # attempts
KINDS = {"hints": int, "attempts": int, "graded": str, "right": str}


def read_record(folder):
    """{"hints": {exercise: level}, "attempts": {exercise: number}, "graded": {exercise: digest},
    "right": {exercise: digest}}.

    What is not of this form is left out: the file is the student's.
    """
    try:
        found = _read(Path(folder) / RECORD)
    except (OSError, ValueError):
        found = {}
    record = {}
    for kind, type_ in KINDS.items():
        entries = found.get(kind)
        entries = entries if isinstance(entries, dict) else {}
        record[kind] = {exercise.name: entries[exercise.name] for exercise in all_exercises()
                        if _is_entry(entries.get(exercise.name), type_)}
    return record


def _read(path):
    """The value of a record; ValueError if it is none."""
    found = parse_json(read_file(path, MOST, follow_links=False))
    if not isinstance(found, dict):
        raise ValueError("it is no object of JSON")
    return found


def keep_unreadable(folder):
    """Rename a record that cannot be read, and say so: it is not overwritten."""
    path = Path(folder) / RECORD
    try:
        _read(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        names = (path.with_name(f"{path.stem}-unreadable{number or ''}{path.suffix}")
                 for number in count())
        aside = next(name for name in names if not os.path.lexists(name))
        with suppress(OSError):
            path.rename(aside)
            print(printable(f"numformer: {path} cannot be read and is kept as {aside.name}; "
                            "attempts and hints are counted anew"), file=sys.stderr)


def write_record(folder, record):
    """Write a record; a folder that cannot be written to keeps none."""
    keep_unreadable(folder)
    with suppress(OSError):
        write_atomically(Path(folder) / RECORD, (json.dumps(record, indent=2) + "\n").encode())


def count_attempts(folder, rows):
    """Count those of the rows of `grade` that are on a changed file as attempts, and write it."""
    record = read_record(folder)
    for row in rows:
        name, digest = row["name"], _digest(Path(folder) / f"{row['name']}.py")
        if digest and digest != record["graded"].get(name) and not is_not_begun(row["feedback"]):
            record["graded"][name] = digest
            record["attempts"][name] = record["attempts"].get(name, 0) + 1
    write_record(folder, record)


def unchanged(folder, names, seed):
    """Those of the exercises whose file is as it was when `remember_right` noted it."""
    right = read_record(folder)["right"]
    return [name for name in names if right.get(name) == _stamp(folder, name, seed) is not None]


def remember_right(folder, names, seed):
    """Note that the files of these exercises are right, by this version and on this seed."""
    record = read_record(folder)
    record["right"] |= {name: stamp for name in names
                        if (stamp := _stamp(folder, name, seed)) is not None}
    write_record(folder, record)


def _stamp(folder, name, seed):
    digest = _digest(Path(folder) / f"{name}.py")
    return None if digest is None else hashlib.sha256(
        f"{__version__} {seed} {digest}".encode()).hexdigest()


def with_record(folder, rows):
    """The rows of `grade` with ``hints`` and ``attempts``, the numbers of both."""
    record = read_record(folder)
    return [{**row, **{kind: record[kind].get(row["name"], 0) for kind in ("hints", "attempts")}}
            for row in rows]


def _is_entry(value, type_):
    return type(value) is type_ and (type_ is str or 0 < value < MANY)


def _digest(path):
    """The SHA-256 of a file; None if it is none."""
    with suppress(OSError, ValueError):
        return hashlib.sha256(read_file(path, MIB, follow_links=False)).hexdigest()
