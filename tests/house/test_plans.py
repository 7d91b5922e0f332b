"""The plans for teachers keep what the first and last cells of the lessons say."""

import re
from pathlib import Path

import pytest

from numformer.teaching.exercise import all_exercises, exercises_of_lesson

ROOT = Path(__file__).parents[2] / "notebooks"
SOURCES = {int(path.name[:2]): path.read_text() for path in sorted((ROOT / "source").glob("*.py"))}
TEACHING = (ROOT / "TEACHING.md").read_text()
PLANS = ["A course of 12 weeks", "A course of 6 weeks"]


def prose(source):
    return re.sub(r"\n# ?", " ", source)


def lessons_in(text):
    """Numbers of lessons in words such as "2 to 4, 7 and 10"."""
    ranges = re.findall(r"(\d+)(?: to (\d+))?", text)
    return {n for first, last in ranges for n in range(int(first), int(last or first) + 1)}


def needs(source):
    """The lessons that the first sentence of "You need" names."""
    sentence = re.search(r"\*\*You need\*\* (.*?\.)(?:\s|$)", prose(source))[1]
    named = re.findall(r"lessons? (\d[^.;:(]*(?:\([^)]*\)[^.;:(]*)*)", sentence)
    return set().union(*(lessons_in(re.sub(r"\([^)]*\)", "", part)) for part in named))


def exercises(source):
    """The exercises that the end of a lesson recommends, in the one form that all lessons have."""
    text = " ".join(prose(source[source.index("# ## Summary"):]).split())
    lists = re.findall(r"More practice: `numformer exercises ((?:\d\d ?)+)`", text)
    assert len(re.findall("numformer exercises", text)) == len(lists) <= 1
    return [int(number) for each in lists for number in each.split()]


def practised(lesson):
    """The numbers of the exercises whose headers name a lesson."""
    return [int(exercise.name[:2]) for exercise in exercises_of_lesson(lesson)]


@pytest.mark.parametrize("lesson", SOURCES)
def test_a_lesson_recommends_the_exercises_whose_headers_name_it(lesson):
    assert exercises(SOURCES[lesson]) == practised(lesson)


def test_every_exercise_is_practice_of_a_lesson():
    assert all(set(exercise.lessons) <= set(SOURCES) and exercise.lessons == tuple(
        sorted(exercise.lessons)) for exercise in all_exercises())
    assert sum(len(exercise.lessons) for exercise in all_exercises()) > len(all_exercises()) > 40


def weeks(heading):
    """For each week: the lessons in their order, and the homework."""
    section = TEACHING.split(f"## {heading}\n")[1].split("\n## ")[0]
    for row in re.findall(r"(?m)^\| \d+ \|(.*)\|$", section):
        *lectures, homework = row.split("|")
        yield ([int(n) for cell in lectures for n in re.findall(r"\b(\d+)(?:\. |$)", cell.strip())],
               lessons_in(homework.replace("`", "")))


def test_the_table_of_needs_is_that_of_the_lessons():
    section = TEACHING.split("## How the lessons depend on each other\n")[1].split("\n## ")[0]
    table = {int(lesson): lessons_in(needed)
             for lesson, needed in re.findall(r"(?m)^\| (\d+) \| ([^|]*) \|$", section)}
    assert table == {lesson: needs(source) for lesson, source in SOURCES.items()}
    assert all(max(needed, default=0) < lesson for lesson, needed in table.items() if lesson)


@pytest.mark.parametrize("heading", PLANS)
def test_a_lesson_comes_after_those_that_it_needs(heading):
    taught = {0}
    for lessons, _ in weeks(heading):
        for lesson in lessons:
            assert needs(SOURCES[lesson]) <= taught | {lesson}, lesson
            taught.add(lesson)
    assert len(taught) > 10


@pytest.mark.parametrize("heading", PLANS)
def test_homework_is_what_a_lesson_up_to_then_recommends(heading):
    known = set(practised(0))
    for lessons, homework in weeks(heading):
        known = known.union(*map(practised, lessons))
        assert homework <= known, lessons
    assert len(known) > 20


@pytest.mark.parametrize("heading", PLANS)
def test_homework_comes_after_the_exercises_that_it_needs(heading):
    """Those of the header of each exercise, which the teacher's GUIDE.md prints."""
    number = {exercise.name[3:]: int(exercise.name[:2]) for exercise in all_exercises()}
    needed = {int(exercise.name[:2]): {number[name] for name in exercise.header("needs").split(", ")
                                       if name != "nothing"} for exercise in all_exercises()}
    given, early = set(), {}
    for _, homework in weeks(heading):
        given |= homework
        early |= {name: needed[name] - given for name in homework if needed[name] - given}
    assert early == {} and len(given) > 18


EXAM = (ROOT / "EXAM.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(                               # name, points, key
    r"(?ms)^\*\*(\d+[a-z])\*\* \((\d+) points?\).*?</summary>(.*?)</details>", EXAM)
POINTS = {name: int(n) for name, n, _ in QUESTIONS}
EXAMS = re.findall(                                   # title, course, lessons, questions, points
    r"(?m)^\| ([a-z-]+, \d+) minutes \| ([^|]*) \| ([^|]*) \| ([^|]*) \| (\d+) \|$", EXAM)


def taught(heading):
    """The lessons of a plan, and the pairs of which it gives only one."""
    section = TEACHING.split(f"## {heading}\n")[1].split("\n## ")[0]
    return (set().union(*(lessons for lessons, _ in weeks(heading))),
            [{int(n) for n in pair} for pair in re.findall(r"\b(\d+)\. [^|]*?, or (\d+)", section)])


def test_an_exam_has_its_points_and_asks_about_its_lessons():
    assert len(EXAMS) == 4 and len(POINTS) == len(QUESTIONS)
    for title, _, lessons, questions, total in EXAMS:
        chosen = questions.split(", ")
        assert sum(POINTS[name] for name in chosen) == int(total) == int(title.split()[1]) // 2
        assert {int(name[:-1]) for name in chosen} <= lessons_in(lessons)
        assert len(set(chosen)) == len(chosen)


@pytest.mark.parametrize("exam", EXAMS, ids=lambda exam: f"{exam[0]}: {exam[1]}")
def test_an_exam_asks_about_lessons_that_its_course_has(exam):
    """Both courses where it names both, and one lesson of "14, or 19"."""
    _, course, lessons, _, _ = exam
    named = [heading for heading in PLANS if re.search(rf"\b{heading.split()[-2]}\b", course)]
    assert named
    for heading in named:
        given, choices = taught(heading)
        assert lessons_in(lessons) <= given | {0}
        assert all(len(pair & lessons_in(lessons)) < 2 for pair in choices)


def test_both_courses_have_a_final_for_each_choice():
    for heading in PLANS:
        weeks_of = heading.split()[-2]
        finals = [exam for exam in EXAMS if exam[0].startswith("final")
                  and exam[1].startswith(f"{weeks_of} weeks")]
        choices = taught(heading)[1]
        assert {n for pair in choices for n in pair} <= set().union(
            *(lessons_in(exam[2]) for exam in finals))
        assert len(finals) == 2 ** len(choices)


@pytest.mark.parametrize("name, points, key", QUESTIONS, ids=[name for name, *_ in QUESTIONS])
def test_the_marks_of_a_key_sum_to_its_points(name, points, key):
    marks = [int(n) for n in re.findall(r"\s\[(\d)\](?=[\s,;.]|$)", key)]
    assert sum(marks) == int(points) and (len(marks) > 1 or name == "18a")
