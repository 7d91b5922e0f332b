"""The audit: its command, its picture, and wrong gradients that it finds."""

import json

import numpy as np
import pytest

from numformer import functional as F
from numformer.cli import main
from numformer.plots import audit_errors
from numformer.verify import audit as audit_module
from numformer.verify import compiled
from numformer.verify.registry.cases import Pair


def test_a_nan_in_a_kernel_fails_the_audit(monkeypatch):
    calls = []

    def run(functions, *arguments):
        calls.append(functions)
        return [np.full(3, np.nan if len(calls) == 1 else 0.0)] * 4

    monkeypatch.setattr(compiled, "run", run)
    rows = audit_module.audit(["kernel, plain, float64"])
    assert not rows[0]["ok"] and rows[0]["max_error"] == np.inf


def test_the_audit_command_prints_json_and_draws(tmp_path, capsys):
    figure = tmp_path / "audit.png"
    assert main(["audit", "norm", "swiglu", "alibi, float", "--figure", str(figure), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"name", "kind", "parameters", "max_error",
            "method"} <= set(result["cases"][0]) and 0 < result["worst"] < 1e-5
    assert {"function",
            "layer"} <= {case["kind"]
                         for case in result["cases"]} and figure.stat().st_size > 10_000
    assert main(["audit", "no such layer"]) == main(["audit", "--figure", "x.doc"]) == 2
    assert "no such layer" in capsys.readouterr().err


def test_the_audit_finds_a_wrong_backward(monkeypatch, capsys):
    wrong = Pair("planted", F.relu, lambda dy, saved: 1.000001 * F.relu_backward(dy, saved),
                 [(3, 4)])
    monkeypatch.setattr(audit_module, "PAIRS", [wrong])
    assert main(["audit", "planted"]) == 1
    assert "FAIL planted" in capsys.readouterr().out


def test_the_picture_of_the_audit_marks_what_is_wrong():
    rows = [{"name": name, "kind": kind, "max_error": error, "bound": 1e-12, "ok": error < 1e-12}
            for name, kind, error in (("a", "function", 0.0), ("b", "layer", 1e-15),
                                      ("c", "kernel", 1e-3))]
    axes = audit_errors(rows)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert axes.get_xscale() == "log"
    assert [line.get_label() for line in axes.lines] == ["function", "layer", "kernel", "bound"]
    assert [text.get_text() for text in axes.texts] == ["wrong"]
    with pytest.raises(ValueError, match="rows is empty"):
        audit_errors([])
