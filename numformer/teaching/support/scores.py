"""Grades as a table for other programs: a row for each student, a column for each exercise."""

import csv
import io

FORMULAS = ("=", "+", "-", "@", "\t", "\r")           # with which a spreadsheet begins a formula


def scores(students):
    """The grades of students as CSV.

    Columns are student, points, of, the points of each exercise by name, and trouble, which says
    why a folder could not be graded. Where an answer in words belongs to an exercise, there is a
    column for its points, in which whoever marks it fills in what is empty. A name that a
    spreadsheet would compute gets a "'" in front, since students name their folders.

    Parameters
    ----------
    students : sequence of Graded

    Returns
    -------
    str
        Lines that end in CR LF (RFC 4180).
    """
    names = sorted({row["name"] for graded in students for row in graded.rows})
    file = io.StringIO()
    table = csv.writer(file)
    in_words = {row["name"]: row["written"]["of"] for graded in students for row in graded.rows
                if row.get("written")}
    table.writerow(["student", "points", "of", *names, *(
        f"{name} in words (of {in_words[name]})" for name in names if name in in_words), "trouble"])
    for graded in students:
        of_name = {row["name"]: f"{row['points']:g}" for row in graded.rows}
        sums = ["", ""] if graded.trouble else [f"{graded.points:g}", graded.of]
        nothing = {row["name"] for row in graded.rows
                   if row.get("written") and not row["written"]["lines"]}
        table.writerow([_harmless(graded.name), *sums, *(of_name.get(name, "") for name in names),
                        *("0" * (name in nothing) for name in names if name in in_words),
                        _harmless(graded.trouble)])
    return file.getvalue()


def _harmless(text):
    return f"'{text}" if text.startswith(FORMULAS) else text
