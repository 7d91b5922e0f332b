"""Answers in words: what is asked next to the code, the points of each step, and our answer.

A gradient is derived, a bug is explained, and an answer to a question is justified. Students get a
page with the steps and a space for each; it is marked by hand. Our answers are for the key alone:
those with numbers are computed by the `answers()` of the exercise.
"""

import inspect
import re
from collections import Counter
from pathlib import Path

from numformer import backend
from numformer.docstrings import docstring
from numformer.files import MIB, read_file
from numformer.specifications import find_problem
from numformer.teaching.check import check
from numformer.teaching.judge import answers_of

# (points, step)
DERIVATION = (
    (2, "the terms: which there are, and why there are no others"),
    (1, "shapes and sums: of which shape each product is, and over which axes sums run"),
    (1, "the last line, in a form that one can program"))
BUG = (
    (1, "the line that is wrong, and what it must be"),
    (1, "why: the step of the derivation that it contradicts"),
    (1, "how it shows: which gradients and which entries are wrong because of it, and which not"))
CONSEQUENCES = ("An error costs the points of its own step: what follows from it consistently gets "
                "its points.")
HEADS = {DERIVATION: "Derive the gradient that `{function}` computes.",
         BUG: "Explain what was wrong in `{function}`.",
         None: "Say for each answer how you found it."}
SPACE = "(your answer)"
MOST = MIB                                            # bytes of a page


def steps_of(exercise, form):
    """The steps of the answer in words, as (points, step); () if nothing is asked."""
    if exercise.bug(form) is not None:
        return BUG
    if exercise.kind != "answers":
        return DERIVATION if exercise.function(form).endswith("_backward") else ()
    return tuple((1, f'"{name}": first with letters or in words, then with the numbers')
                 for name in _asked(exercise, form))


def points_of(exercise, form):
    """The points of the answer in words; 0 if nothing is asked."""
    return sum(points for points, _ in steps_of(exercise, form))


def rubric(steps):
    """The steps in one line."""
    return "; ".join(f"{_points(points)} for {step}" for points, step in steps)


def page(exercise, form):
    """The page of the students' folder: steps with their points, and a space for each."""
    return _page(exercise, form, [SPACE] * len(steps_of(exercise, form)))


def model_page(exercise, form):
    """The page of the key: the same with our answer, and what to look for."""
    return (_page(exercise, form, _model(exercise, form))
            + f"\n## To look for\n\n{_listed(exercise.ideas)}\n\n"
            f"## The hints that students can ask for\n\n{_listed(exercise.hints(form))}\n\n"
            f"## The lines of our solution\n\n```python\n{exercise.solution(form)}```\n")


def handed_in(folder, exercise, key):
    """What a student's page holds: {"of": points, "lines": number of lines of their own}.

    None if nothing is asked. A page that is missing, or cannot be read, has no lines.
    """
    form = key.forms[exercise.name]
    if not steps_of(exercise, form):
        return None
    try:
        text = read_file(Path(folder) / f"{exercise.name}.md", MOST, follow_links=False)
    except (OSError, ValueError):
        text = b""
    lines = Counter(filter(None, map(str.strip, text.decode("utf-8", "replace").splitlines())))
    given = Counter(map(str.strip, page(exercise, form).splitlines()))
    return {"of": points_of(exercise, form), "lines": (lines - given).total()}


def _asked(exercise, form):
    """The names of the questions, in the order of the form."""
    return re.findall(r'^- "(\w+)": ', exercise.student(form).split('"""')[1], re.MULTILINE)


def _page(exercise, form, answers):
    steps, function = steps_of(exercise, form), exercise.function(form)
    head = HEADS.get(steps, HEADS[None]).format(function=function)
    parts = [f"## {number}. {step[0].upper()}{step[1:]} ({_points(points)})\n\n{answer}\n"
             for number, ((points, step), answer) in enumerate(zip(steps, answers), 1)]
    return "\n".join([
        f"# {exercise.name}: in words\n\n{head} Formulas may be LaTeX or plain text, such as\n"
        f"`a^2 + b^2 = c^2`. {_points(points_of(exercise, form))}, marked by hand.\n"
        f"{CONSEQUENCES}\n", *parts])


def _model(exercise, form):
    """Our answer to each step."""
    if exercise.kind == "answers":
        answers = answers_of(exercise, form)
        return [f"`{answers[name]!r}`; see the last hint below." for name in _asked(exercise, form)]
    bug, derived = exercise.bug(form), _derived(exercise, form)
    if bug is not None:
        name, given = exercise.function(form), {}
        exec(exercise.student(form), given)
        with backend.using("numpy"):
            shows = check(name, given[name], 0, exercise.levels, process=False, cause=False)
        return [f"The cause: {bug}. The right lines are at the end of this page.", derived,
                f"For example: {shows.words}"]
    return [derived, "As in the formulas above and the lines at the end of this page.",
            "The lines at the end of this page."]


def _derived(exercise, form):
    """What the reference says of its gradient, with formulas in LaTeX."""
    if exercise.kind == "own":
        return "The ideas and the last hint below."
    _, problem, _ = find_problem(exercise.function(form))
    text = re.split(r"\n(?:Parameters|Returns)\n---", docstring(problem.gradient))[0]
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text.replace("``", "`"))
    return re.sub(r"^\.\. math::\s*((?:.*\S.*\n?)(?:\n?[ ]+.*\n?)*)",
                  lambda found: f"$$\n{inspect.cleandoc(found[1])}\n$$\n", text,
                  flags=re.MULTILINE).strip()


def _listed(texts):
    return "\n".join(f"- {text}" for text in texts)


def _points(points):
    return f"{points} point{'s' * (points != 1)}"
