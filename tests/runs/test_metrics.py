"""Metrics are read line by line; a line that is none is named."""

import json

import pytest

from numformer.files import FileError
from numformer.runs import RunFolder, read_metrics

LINES = [{"step": 1, "loss": 2.5, "learning_rate": 0.1, "gradient_norm": 1.5,
          "update_ratio": {"a.weight": 0.01}, "facts": {"reward": 0.5, "length": 7}},
         {"step": 1, "val_loss": 2.25}, {"step": 2, "loss": 2, "learning_rate": 0.1,
                                         "gradient_norm": 0}]


def write(path, lines, end=b""):
    data = b"".join(json.dumps(line).encode() + b"\n" if isinstance(line, dict) else line
                    for line in lines)
    path.write_bytes(data + end)


def test_whole_lines_are_read_and_a_cut_one_is_left_out(tmp_path):
    write(tmp_path / "m", LINES, b'{"step": 3, "los')
    assert read_metrics(tmp_path / "m") == LINES and read_metrics(tmp_path / "none") == []
    assert RunFolder(tmp_path / "run").read_metrics() == []


@pytest.mark.parametrize("line, words", [
    (b"[" * 100_000 + b"\n", "nested too deeply"), (b"9" * 5000 + b"\n", "5000 digits"),
    (b'{"step": 3, "loss": NaN}\n', "NaN is no number"), (b"\xff\n", "codec"), (b"\n", "Expecting"),
    (b'{"step": 3, "loss": 1e999}\n', "too large"), (b'{"step": 3, "loss": "1"}\n', "loss is '1'"),
    (b'{"step": 3, "loss": true}\n', "loss is True"), (b'{"loss": 1.0}\n', "step is None"),
    (b'{"step": 3}\n', "either a loss"), (b'{"step": 3, "loss": 1, "val_loss": 1}\n', "either"),
    (b'{"step": 3, "lost": 1}\n', "either a loss"), (b'{"step": 2, "loss": 1}\n', "after 2"),
    (b'{"step": 1, "val_loss": 1}\n', "after 1"), (b'{"step": 3.0, "loss": 1}\n', "step is 3.0"),
    (b'{"step": 3, "loss": 1, "colour": 1}\n', "unknown: ['colour']"),
    (b'{"step": 3, "loss": 1, "loss": 2}\n', "appears twice"), (b"[1]\n", "either a loss"),
    (b'{"step": 3, "loss": 1, "update_ratio": {"a": "b"}}\n', "a is 'b'"),
    (b'{"step": 3, "loss": 1, "update_ratio": 1}\n', "update_ratio is 1"),
    (b'{"step": 3, "loss": 1, "facts": []}\n', "facts is []"),
    (b'{"step": 3, "loss": 1, "facts": {"reward": null}}\n', "reward is None"),
    (b'{"step": 3, "val_loss": 1, "facts": {}}\n', "unknown: ['facts']"),
    (b'{"step": 1e30, "loss": 1}\n', "step is 1e+30"), (b"\0" * 2**21 + b"\n", "more than 1048576"),
    (b'{"step": ' + b"9" * 99 + b', "loss": 1}\n', "step is 999")])
def test_a_line_that_is_none_is_named(tmp_path, line, words):
    write(tmp_path / "m", [*LINES, line])
    with pytest.raises(FileError) as caught:
        read_metrics(tmp_path / "m")
    assert "m, line 4: " in str(caught.value) and words in str(caught.value)
    # a run that is continued from step 2 needs none of the lines after it
    assert read_metrics(tmp_path / "m", until=2) == LINES
    with pytest.raises(FileError):
        read_metrics(tmp_path / "m", until=3)
