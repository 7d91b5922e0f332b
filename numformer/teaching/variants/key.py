"""The key of a variant: what a teacher keeps, and grades with.

Everything that is secret follows from 256 random bits and the salt, as HMAC-SHA256 of what it is
for (RFC 2104). The salt may be short, such as the name of a term: whoever tries out salts, without
the random bits, has nothing to compare with.
"""

import hmac
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from numformer.files import KIB, FileError, parse_json, read_file
from numformer.teaching.exercise import find_exercises
from numformer.teaching.judge import gets_all_points
from numformer.teaching.manifest import Manifest
from numformer.terminal import printable

KEY = "key.json"
BYTES = 32                                            # of the secret
SEED_BITS = 128
NAME_DIGITS = 16                                      # of a variant's name
MOST = 64 * KIB                                       # bytes of the file
LONGEST_SALT = 200                                    # characters
ATTEMPTS = 200                                        # to draw a form that another key has not


@dataclass(frozen=True)
class Key:
    """What a variant is made of, and graded with.

    Parameters
    ----------
    secret : bytes
        32, random.
    salt : str
        What tells this term from others; "" if the variant is not salted.
    forms : dict
        {name of an exercise: its form}.
    """

    secret: bytes = field(repr=False)
    salt: str
    forms: dict

    @property
    def exercises(self):
        """The names of the exercises, a tuple of str."""
        return tuple(self.forms)

    @property
    def variant(self):
        """The name of the variant, which students see and which says nothing."""
        return _digest(self.secret, "name", self.salt).hex()[:NAME_DIGITS]

    @property
    def problems(self):
        """The seed of the problems that grade functions."""
        return int.from_bytes(_digest(self.secret, "problems", self.salt)) >> (256 - SEED_BITS)

    @property
    def manifest(self):
        """The Manifest of the students' folder."""
        return Manifest(self.exercises, None, self.variant, self.forms)

    def check(self, folder, manifest):
        """ValueError unless a folder, with its Manifest, is of this key's variant, unchanged."""
        if not manifest.variant:
            raise ValueError(f"{folder} is of no variant: its manifest has a seed; grade it "
                             "without a key if you gave it out like that.")
        if manifest.variant != self.variant:
            raise ValueError(f"{folder} is of the variant {printable(manifest.variant)}, but the "
                             f"key is of {self.variant}; give the key of that variant.")
        if manifest != self.manifest:
            raise ValueError(f"{folder}: its manifest is not as it was written: exercises or forms "
                             "were changed; put the one beside the key in its place.")

    def text(self):
        """The file, as a str."""
        content = {"secret": self.secret.hex(), "salt": self.salt, "exercises": self.forms}
        return json.dumps({**content, "checksum": _checksum(content)}, indent=2) + "\n"


def make_key(names=None, salt="", seed=0, unlike=None):
    """A new key.

    Parameters
    ----------
    names : sequence of str, optional
        Names or numbers of exercises; all by default.
    salt : str
        What tells this term from others. "" for a variant whose bugs, numbers and functions are
        those that `seed` chooses: then only the problems are secret.
    seed : int
    unlike : Key, optional
        Of another term, whose forms are avoided, and others in which its answers are right; what
        cannot be avoided, `repeated` says. It needs a salt.

    Raises
    ------
    ValueError
        If there is no such exercise, or the salt is no text of 1 to 200 characters.
    """
    if salt and (not salt.isprintable() or len(salt) > LONGEST_SALT):
        raise ValueError(f"exercises: the salt must be a line of at most {LONGEST_SALT} "
                         "characters, such as a term and random letters.")
    secret, chosen = secrets.token_bytes(BYTES), find_exercises(names)
    if not salt:
        return Key(secret, "", {exercise.name: exercise.form(seed) for exercise in chosen})
    last = unlike.forms if unlike else {}
    groups, forms = {}, {}
    for exercise in chosen:
        groups.setdefault(_group(exercise), []).append(exercise)
    for group, together in groups.items():
        least = 3
        for attempt in range(ATTEMPTS):
            drawn = {exercise.name: _drawn(exercise, secret, salt, group, attempt)
                     for exercise in together}
            likeness = max(_likeness(exercise, drawn[exercise.name], last.get(exercise.name))
                           for exercise in together)
            if likeness < least:
                least = likeness
                forms.update(drawn)
            if not likeness:
                break
    return Key(secret, salt, {exercise.name: forms[exercise.name] for exercise in chosen})


def repeated(key, last):
    """The names of the exercises whose answers of another key are right again, a list."""
    return [exercise.name for exercise in find_exercises(key.exercises)
            if _likeness(exercise, key.forms[exercise.name], last.forms.get(exercise.name))]


def read_key(path):
    """The Key in a folder that `write_variant` made, or of its file.

    Raises
    ------
    ValueError
        If there is none, or it is damaged.
    """
    path = Path(path)
    path = path / KEY if path.is_dir() else path
    damaged = f"{path} is damaged: it is not as it was written; restore it from a copy."
    try:
        found = parse_json(read_file(path, MOST))
        checksum = found.pop("checksum")
        if not hmac.compare_digest(checksum, _checksum(found)):
            raise ValueError(damaged)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"there is no key {path}; give the folder that `numformer exercises "
                         "--students` made for the teacher.") from None
    except FileError:
        raise
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; make it readable.") from None
    except (AttributeError, ValueError, KeyError, TypeError):
        raise ValueError(damaged) from None
    forms = {name: tuple(form) for name, form in found["exercises"].items()}
    known = {exercise.name: exercise for exercise in find_exercises()}
    if not all(name in known and known[name].is_form(form) for name, form in forms.items()):
        raise ValueError(f"{path} is of another version of numformer, whose exercises have other "
                         "forms; grade with that version.")
    return Key(bytes.fromhex(found["secret"]), found["salt"], forms)


def _group(exercise):
    """The number of the exercise whose choices it makes."""
    return exercise.header("varies with") or exercise.name[:2]


def _drawn(exercise, secret, salt, group, attempt):
    """A form, with an order of the questions if there are any."""
    digest = _digest(secret, "form", salt, group, str(attempt))
    rng = np.random.default_rng(int.from_bytes(digest))
    orders = (exercise.orders,) if exercise.questions else ()
    return tuple(int(rng.integers(n)) for n in (*exercise.options, *orders))


def _likeness(exercise, form, last):
    """2 if a form is the last one, 1 if it has the same answers, 0 if not, or if there is no other.

    An answer may be right in several forms: ours of either form is tried in the other.
    """
    n = len(exercise.options)
    if last is None or not n:
        return 0
    form, last = form[:n], last[:n]
    if form == last:
        return 2
    return int(exercise.kind == "answers" and (
        gets_all_points(exercise, last, form) or gets_all_points(exercise, form, last)))


def _digest(secret, *words):
    return hmac.digest(secret, json.dumps(words).encode(), "sha256")


def _checksum(content):
    """Of the file's content, by its own secret."""
    return hmac.digest(bytes.fromhex(content["secret"]),
                       json.dumps(content, sort_keys=True).encode(), "sha256").hex()
