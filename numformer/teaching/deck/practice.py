"""The exercises and exam questions that practise what the code of a row computes."""

import tomllib
from functools import cache
from pathlib import Path

from numformer.teaching.exercise import all_exercises

_TABLE = tomllib.loads(Path(__file__).with_name("practice.toml").read_text(encoding="utf-8"))


@cache
def practised():
    """{"exercise:N" or "exam:NA": names of code that it practises}, in order.

    Examples
    --------
    >>> sorted(practised()["exercise:10"])[:2], sorted(practised()["exercise:42"])
    (['functional.layer_norm', 'functional.layer_norm_backward'], ['generation.beam_search'])
    """
    exercises = {f"exercise:{int(exercise.name[:2])}": {
        *_TABLE["exercises"].get(exercise.subject, ()),
        *((f"functional.{exercise.subject}", f"functional.{exercise.subject}_backward")
          if exercise.kind == "check" else ())} for exercise in all_exercises()}
    return exercises | {f"exam:{question}": {*names}
                        for question, names in _TABLE["exam"].items()}


def practice_of(code):
    """The exercises and exam questions that practise some of these names, in order.

    Examples
    --------
    >>> practice_of(["functional.rms_norm"])
    ('exercise:11', 'exercise:12', 'exam:5a')
    """
    return tuple(name for name, names in practised().items() if names & {*code})
