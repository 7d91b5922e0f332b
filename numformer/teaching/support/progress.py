"""Pages of progress: one HTML file for a student, one for a class. No scripts, no network."""

import html
from dataclasses import dataclass

from numformer.teaching.exercise import all_exercises
from numformer.teaching.judge import is_not_begun
from numformer.teaching.support.effort import effort
from numformer.teaching.support.layout import brief
from numformer.terminal import printable

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
:root {{ --ground: #fff; --ink: #1d2430; --faint: #5a6473; --line: #d5dae1; --bar: #2f6f9f;
  --full: #1f6b41; --part: #8a5a00; --none: #a3331f; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ground: #14181f; --ink: #e8ebf0;
  --faint: #a4aebd; --line: #3a4350; --bar: #6fb0e0; --full: #74cf9b; --part: #e6b455;
  --none: #f0907c; }} }}
body {{ background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  max-width: {width}; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.5em; }}
progress {{ width: 100%; height: 1em; accent-color: var(--bar); }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; vertical-align: top; padding: 0.35em 0.7em;
  border-bottom: 1px solid var(--line); }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.state {{ white-space: nowrap; }}
.full {{ color: var(--full); }} .part {{ color: var(--part); }} .none {{ color: var(--none); }}
.open, .faint {{ color: var(--faint); }}
.said {{ font-size: 0.9em; overflow-wrap: anywhere; }}
td.said {{ padding: 0.2em 1em 0.8em 2em; }} li {{ white-space: nowrap; }}
.class td, .class th {{ padding: 0.25em 0.4em; }}
.class th:first-child, .class td:first-child {{ position: sticky; left: 0;
  background: var(--ground); }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
# a sign and a word for each state; the colour repeats them
STATES = {"full": "\u2713 done", "part": "\u25d0 partly right", "none": "\u2717 no points yet",
          "open": "\u2013 not begun"}


@dataclass(frozen=True)
class Graded:
    """The grades of one folder.

    Parameters
    ----------
    name : str
        Of the student, or of the folder.
    rows : list of dict
        As of `grade`, each with ``hints`` and ``attempts``.
    assignment : Assignment, optional
        What `assignment_of` the folder says.
    trouble : str
        Why the folder could not be graded; "" if it was.
    """

    name: str
    rows: list
    assignment: object = None
    trouble: str = ""

    @property
    def points(self):
        """The sum of the points."""
        return round(sum(row["points"] for row in self.rows), 2)

    @property
    def of(self):
        """The highest number of points."""
        return sum(row["of"] for row in self.rows)

    @property
    def done(self):
        """How many exercises have all points."""
        return sum(row["points"] == row["of"] for row in self.rows)

    @property
    def next(self):
        """The first exercise without all points whose requirements are done; None if all are."""
        left = [row["name"] for row in self.rows if row["points"] < row["of"]]
        by_name = {exercise.name: exercise for exercise in all_exercises()}
        ready = [name for name in left if not any(
            other[3:] == need for need in by_name[name].header("needs").split(", ")
            for other in left)]
        return by_name[(ready or left)[0]] if left else None


def state(row):
    """"full", "part", "none" or "open"."""
    if row["points"] == row["of"]:
        return "full"
    if row["points"]:
        return "part"
    return "open" if is_not_begun(row["feedback"]) else "none"


def next_step(graded):
    """A line on what is next."""
    exercise = graded.next
    if exercise is None and len(graded.rows) == 1:
        return f"`numformer solution {graded.rows[0]['name'][:2]}` shows our solution."
    if exercise is None:
        return "All of these exercises are done."
    found = effort(exercise, graded.assignment.form(exercise) if graded.assignment else 0)
    return (f"Next: {exercise.name} ({found.difficulty}, about {found.minutes} minutes); "
            f"`numformer hint {exercise.name[:2]}` gives a hint.")


def student_page(graded):
    """The page of one student: every exercise with its points, and what is next.

    Parameters
    ----------
    graded : Graded

    Returns
    -------
    str
        HTML.
    """
    by_name = {exercise.name: exercise for exercise in all_exercises()}
    head = _row("th", ["Exercise", "Topic", "State", ("n", "Points"), ("n", "Attempts"),
                       ("n", "Hints")])
    rows = []
    for row in graded.rows:
        exercise, kind = by_name[row["name"]], state(row)
        rows.append(_row("td", [
            f"<strong>{row['name'].replace('_', '_<wbr>')}</strong><br>"      # it fits a phone
            f"<span class='faint'>{_text(exercise.title)}</span>",
            exercise.topic, (f"state {kind}", STATES[kind]),
            ("n", f"{row['points']:g} of {row['of']}"), ("n", row["attempts"] or ""),
            ("n", f"{row['hints']} of 3" if row["hints"] else "")]))
        if kind in ("part", "none"):
            said = "<br>".join(map(_text, filter(None, [brief(row["feedback"]),
                                                        shown_parts(row)])))
            rows.append(f"<tr><td class='said' colspan='6'>{said}</td></tr>\n")
    body = (f"<p>{graded.points:g} of {graded.of} points; {graded.done} of {len(graded.rows)} "
            f"exercises are done.</p>\n"
            f"<progress max='{graded.of}' value='{graded.points:g}'></progress>\n"
            f"<p><strong>{_text(next_step(graded))}</strong></p>\n"
            f"<div class='scroll'><table>{head}{''.join(rows)}</table></div>\n"
            "<p class='faint'>An attempt is a grading of a changed file. Attempts and hints cost "
            "no points.</p>")
    return PAGE.format(title=_text(f"Exercises: {graded.name}"), body=body, width="68em")


def class_page(students):
    """The page of a class: one row a student, one column an exercise.

    Parameters
    ----------
    students : list of Graded

    Returns
    -------
    str
        HTML.
    """
    names = [exercise.name for exercise in all_exercises()
             if any(row["name"] == exercise.name for graded in students for row in graded.rows)]
    head = _row("th", ["Student", ("n", "Points"), ("n", "Done"), ("n", "Hints"), *(
        ("n", f"<abbr title='{name}'>{name[:2]}</abbr>") for name in names)])
    rows, columns = [], {name: [] for name in names}
    for graded in students:
        found = {row["name"]: row for row in graded.rows}
        for name in set(found) & set(names):
            columns[name].append(found[name])
        cells = [_cell(found[name]) if name in found else "" for name in names]
        total = [("n", f"{graded.points:g} of {graded.of}"),
                 ("n", f"{graded.done} of {len(graded.rows)}"),
                 ("n", sum(row["hints"] for row in graded.rows))]
        if graded.trouble:
            total, cells = [("said", _text(graded.trouble))], []
        rows.append(_row("td", [f"<bdi>{_text(graded.name)}</bdi>", *total, *cells]))
    of_all = [("n", sum(row["points"] == row["of"] for row in column))
              for column in columns.values()]
    rows.append(_row("td", ["<strong>done by</strong>", "", "", "", *of_all]))
    legend = "".join(f"<li><strong>{name[:2]}</strong> {name[3:]}</li>" for name in names)
    body = (f"<p>{len(students)} folders. In a column: points, with \u2713 for all of them, "
            "\u2013 for a file that was not touched, and the attempts in parentheses.</p>\n"
            f"<div class='scroll'><table class='class'>{head}{''.join(rows)}</table></div>\n"
            f"<ul class='said' style='columns: 27em; list-style: none'>{legend}</ul>")
    return PAGE.format(title="Exercises: a class", body=body, width="none")


def shown_parts(row):
    """The points by part of a row in words; "" if there are fewer than two."""
    if len(row["parts"] or ()) < 2 or not row["points"] or row["points"] == row["of"]:
        return ""
    return "Points by part: " + ", ".join(f"{name} {got:.4g} of {of:.4g}"
                                          for name, (got, of) in row["parts"].items()) + "."


def shown_words(written):
    """What a student's answer in words is worth to look at; `written` is that of `grade`."""
    if not written["lines"]:
        return f"In words: nothing yet, of {written['of']} points."
    lines = f"{written['lines']} line{'s' * (written['lines'] > 1)}"
    return f"In words: {lines}, of {written['of']} points; to be marked by hand."


def _cell(row):
    kind = state(row)
    sign = {"full": " \u2713", "open": ""}.get(kind, "")
    points = "\u2013" if kind == "open" else f"{row['points']:g}"
    tries = f" <span class='faint'>({row['attempts']})</span>" if row["attempts"] else ""
    return f"n {kind}", points + sign + tries


def _row(tag, cells):
    """A row of a table; a cell is HTML, or (class, HTML)."""
    pairs = [cell if isinstance(cell, tuple) else ("", cell) for cell in cells]
    return "<tr>" + "".join(f"<{tag} class='{kind}'>{text}</{tag}>" if kind else
                            f"<{tag}>{text}</{tag}>" for kind, text in pairs) + "</tr>\n"


def _text(text):
    """A text in HTML; what a browser would obey or hide is escaped."""
    return html.escape(printable(text, keep="\n"))
