"""The manifest of a folder of exercises: which they are, and the seed or the forms of a variant.

It lies in the student's folder, so it may hold anything when it comes back.
"""

import json
from pathlib import Path
from typing import NamedTuple

from numformer.checks import check_whole
from numformer.files import KIB, FileError, parse_json, read_file
from numformer.teaching.exercise import find_exercises

MANIFEST = "assignment.json"
MOST = 64 * KIB                                       # bytes
LONGEST = 100                                         # characters of a name


class Manifest(NamedTuple):
    """What a manifest says.

    Parameters
    ----------
    exercises : tuple of str
        Names, or numbers.
    seed : int or None
        Of the bugs, numbers and problems; None in a variant, whose key alone has it.
    variant : str
        The name of the variant; "" if there is a seed.
    forms : dict
        {name: form of the exercise}, in a variant.
    """

    exercises: tuple
    seed: int | None = None
    variant: str = ""
    forms: dict = {}

    def text(self):
        """The file, as a str."""
        if not self.variant:
            return json.dumps({"seed": self.seed, "exercises": self.exercises}, indent=2) + "\n"
        forms = ",\n".join(f"    {json.dumps(name)}: {json.dumps(form)}"
                           for name, form in self.forms.items())
        return f'{{\n  "variant": "{self.variant}",\n  "exercises": {{\n{forms}\n  }}\n}}\n'


def read_manifest(folder):
    """The Manifest of a folder.

    Raises
    ------
    ValueError
        If there is none, or it is none that we write.
    """
    path = Path(folder) / MANIFEST
    try:
        found = parse_json(read_file(path, MOST, follow_links=False))
        if "variant" in found:
            return _of_variant(found)
        check_whole("grade", "seed", found["seed"], least=0)
        return Manifest(tuple(str(name)[:LONGEST] for name in found["exercises"]), found["seed"])
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"there is no {path}; give a folder that `numformer exercises` "
                         "made.") from None
    except FileError:
        raise
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; make it readable.") from None
    except (AttributeError, ValueError, KeyError, TypeError):
        raise ValueError(f"{path} does not name a seed or a variant, and exercises; make the "
                         "folder again with `numformer exercises`.") from None


def _of_variant(found):
    """The Manifest of a variant; ValueError, or another, if it is none."""
    if set(found) != {"variant", "exercises"} or not isinstance(found["variant"], str):
        raise ValueError
    forms = {name: tuple(form) for name, form in found["exercises"].items()}
    exercises = find_exercises(list(forms))
    if list(forms) != [exercise.name for exercise in exercises] or not all(
            exercise.is_form(forms[exercise.name]) for exercise in exercises):
        raise ValueError
    return Manifest(tuple(forms), None, found["variant"][:LONGEST], forms)
