"""A key: all secrets follow from its random bits, and nothing of it is in what students get."""

import json
import os
import stat

import numpy as np
import pytest

from numformer.teaching.exercise import find_exercise, find_exercises
from numformer.teaching.judge import gets_all_points
from numformer.teaching.manifest import read_manifest
from numformer.teaching.variants.folders import students_files, write_variant
from numformer.teaching.variants.key import KEY, Key, make_key, read_key, repeated

NAMES = ("2", "5", "6", "25", "31")


def test_two_keys_of_one_salt_have_nothing_in_common():
    one, other = make_key(NAMES, "autumn"), make_key(NAMES, "autumn")
    assert len(one.secret) == 32 and one.secret != other.secret
    assert one.problems != other.problems and one.variant != other.variant
    assert one.problems.bit_length() > 90 and np.random.default_rng(one.problems).random() >= 0


def test_one_secret_and_salt_make_one_variant_and_another_salt_another():
    key = make_key(NAMES, "autumn")
    again, other = Key(key.secret, "autumn", key.forms), Key(key.secret, "spring", key.forms)
    assert (again.problems, again.variant) == (key.problems, key.variant)
    assert other.problems != key.problems and other.variant != key.variant


def test_salts_vary_what_can_be_varied():
    forms = [make_key(["5", "6", "25", "31", "37"], "term").forms for _ in range(40)]
    assert {each["25_bug_in_softmax_backward"] for each in forms} == {(0,), (1,), (2,)}
    assert {each["37_adamw"] for each in forms} == {()}
    assert len({each["31_figure_mask"] for each in forms}) > 15
    assert {len(each["31_figure_mask"]) for each in forms} == {3}     # two numbers and an order
    for each in forms:                                # both are of the same function
        assert each["05_activation"] == each["06_activation_backward"]


def test_without_a_salt_a_seed_chooses_and_the_problems_are_secret():
    one, other = make_key(NAMES, seed=3), make_key(NAMES, seed=3)
    assert one.forms == other.forms == {
        each.name: each.form(3) for each in find_exercises(NAMES)}
    assert one.problems != other.problems


def test_unlike_another_term_nothing_that_can_differ_is_the_same():
    last = make_key(["1", "5", "6", "25", "29", "31", "33"], "spring")
    for _ in range(12):
        key = make_key(["1", "5", "6", "25", "29", "31", "33"], "autumn", unlike=last)
        for name, form in key.forms.items():
            exercise, n = find_exercise(name), len(find_exercise(name).options)
            assert not n or form[:n] != last.forms[name][:n]
            if exercise.kind == "answers":
                assert not gets_all_points(exercise, last.forms[name], form)
        assert repeated(key, last) == []
    assert key.forms["01_softmax"] == ()


def test_answers_can_be_right_in_another_form():
    """Which is why forms alone are not compared: only M - N and D count in this figure."""
    exercise = find_exercise("figure_rotary")
    assert gets_all_points(exercise, (0, 0, 0, 0), (0, 2, 2, 3))
    assert not gets_all_points(exercise, (0, 0, 0, 0), (0, 1, 0, 0))
    # our answer of the first is what the second excludes, but another of its answers is right
    assert not gets_all_points(exercise, (0, 0, 0), (0, 1, 1))
    one, other = (Key(bytes(32), "", {exercise.name: form}) for form in ((0, 0, 0), (0, 1, 1)))
    assert repeated(one, other) == repeated(other, one) == [exercise.name]


@pytest.mark.slow
def test_an_exercise_whose_answers_are_always_the_same_is_named():
    last = make_key(["31", "36"], "spring")
    key = make_key(["31", "36"], "autumn", unlike=last)
    assert repeated(key, last) == ["36_figure_steps"]
    assert key.forms["36_figure_steps"][0] != last.forms["36_figure_steps"][0]


@pytest.mark.parametrize("salt", ["a\nb", "\x1b[2J", "\udcff", "x" * 201])
def test_a_salt_is_one_short_line(salt):
    with pytest.raises(ValueError, match="salt must be a line"):
        make_key(["1"], salt)


def test_a_key_is_read_as_it_was_written(tmp_path):
    key = make_key(NAMES, "a caf\u00e9")
    write_variant(tmp_path / "class", tmp_path / "key", key)
    assert read_key(tmp_path / "key") == read_key(tmp_path / "key" / KEY) == key
    assert read_manifest(tmp_path / "class") == key.manifest == read_manifest(tmp_path / "key")


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_nobody_else_reads_a_key(tmp_path):
    before = os.umask(0)
    try:
        write_variant(tmp_path / "class", tmp_path / "key", make_key(["1"]))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "key").iterdir()} == {0o600}


def test_students_get_no_seed_no_salt_and_no_solution():
    key = make_key(salt="a very special term")
    files = students_files(key)
    whole = "\n".join(files.values())
    secrets = (key.secret.hex(), key.secret.hex()[:12], str(key.problems), f"{key.problems:x}",
               "very special")
    assert not any(secret in whole for secret in secrets) and '"seed"' not in files[
        "assignment.json"]
    for exercise in find_exercises():
        form = key.forms[exercise.name]
        assert files[f"{exercise.name}.py"] == exercise.student(form)
        solution = list(map(str.strip, exercise.solution(form).splitlines()))
        given = files[f"{exercise.name}.py"] + files.get(f"{exercise.name}.md", "")
        if exercise.bug(form) is None:
            assert not all(line in given for line in solution), exercise.name
        else:
            assert exercise.bug(form) not in whole
        assert not any(hint in whole for hint in exercise.hints(form))


DAMAGED = [
    lambda text: text.replace('"secret": "', '"secret": "0', 1), lambda text: text[:-40],
    lambda text: text.replace("term", "tern"), lambda text: "", lambda text: "[]",
    lambda text: "null", lambda text: "{}", lambda text: "[" * 9999,
    lambda text: text.replace("31_figure_mask", "32_figure_scale"),
    lambda text: json.dumps({**json.loads(text), "more": 1}),
    lambda text: json.dumps({**json.loads(text), "secret": "no digits"}),
    lambda text: json.dumps({**json.loads(text), "secret": 5}),
    lambda text: json.dumps({**json.loads(text), "checksum": None})]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_key_says_so(tmp_path, damage):
    key = make_key(["1", "31"], "term")
    (tmp_path / KEY).write_text(damage(key.text()))
    with pytest.raises(ValueError, match="is damaged: it is not as it was written"):
        read_key(tmp_path)


def test_a_key_that_is_no_file_says_so(tmp_path):
    with pytest.raises(ValueError, match="there is no key"):
        read_key(tmp_path)
    (tmp_path / KEY).mkdir()
    with pytest.raises(ValueError, match="cannot be read: Is a directory|Permission"):
        read_key(tmp_path)
    (tmp_path / KEY).rmdir()
    (tmp_path / KEY).write_bytes(b" " * 2**17)
    with pytest.raises(ValueError, match="too large"):
        read_key(tmp_path)


def test_a_key_of_other_exercises_names_the_version(tmp_path):
    for forms in ({"99_other": ()}, {"31_figure_mask": (9, 9)}):
        (tmp_path / KEY).write_text(Key(bytes(32), "", forms).text())
        with pytest.raises(ValueError, match="another version of numformer"):
            read_key(tmp_path)
