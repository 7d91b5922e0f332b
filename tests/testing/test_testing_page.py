"""The page on testing: what it shows runs, and fails where it should."""

import re
from pathlib import Path

import pytest

import numformer.testing

PAGE = (Path(numformer.testing.__file__).parent / "TESTING.md").read_text()


def test_the_examples_of_the_page_run(capsys):
    pytest.importorskip("torch")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(block, names)
        tests = [name for name in names if name.startswith("test_")]
        for name in tests:
            names.pop(name)()
    assert "gates i, f, o, g" in capsys.readouterr().out


def test_what_the_page_says_can_be_imported():
    for name in set(re.findall(r"\b(assert_\w+|read_golden|write_golden)\b", PAGE)):
        assert hasattr(numformer.testing, name)
