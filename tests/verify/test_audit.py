"""The audit: its command, its picture, and wrong gradients that it finds."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from command import is_alive, waited_for
from marks import slow_among
from numformer import backend
from numformer import functional as F
from numformer.cli import main
from numformer.commands.shared.process import STOPPED
from numformer.plots import audit_errors
from numformer.specifications.pair import Pair
from numformer.verify import audit as audit_module
from numformer.verify import compiled


def test_a_nan_in_a_kernel_fails_the_audit(monkeypatch):
    calls = []

    def run(functions, *arguments):
        calls.append(functions)
        return [np.full(3, np.nan if len(calls) == 1 else 0.0)] * 4

    monkeypatch.setattr(compiled, "run", run)
    rows = audit_module.audit(["kernel, plain, float64"])
    assert not rows[0]["ok"] and rows[0]["max_error"] == np.inf


@pytest.mark.slow
def test_the_audit_command_prints_json_and_draws(tmp_path, capsys):
    figure = tmp_path / "audit.png"
    names = ["layer norm", "swiglu", "projections", "alibi, float"]
    assert main(["audit", *names, "--figure", str(figure), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"name", "kind", "parameters", "max_error",
            "method"} <= set(result["cases"][0]) and 0 < result["worst"] < 1e-5
    assert {"function",
            "layer"} <= {case["kind"]
                         for case in result["cases"]} and figure.stat().st_size > 10_000
    assert main(["audit", "no such layer"]) == main(["audit", "--figure", "x.doc"]) == 2
    assert "no such layer" in capsys.readouterr().err


def test_the_audit_finds_a_wrong_backward(monkeypatch, capsys):
    wrong = Pair("planted", [(3, 4)], function=F.relu,
                 gradient=lambda dy, saved: 1.000001 * F.relu_backward(dy, saved))
    monkeypatch.setattr(audit_module, "PAIRS", [wrong])
    assert main(["audit", "planted"]) == 1
    assert "FAIL planted" in capsys.readouterr().out


def fails(x):
    raise ZeroDivisionError("planted")


def ends(x):
    os._exit(3)


def relus(name, **options):
    """Pairs of which the second has this name, and is wrong in some way."""
    right = [Pair(f"right {n}", [(3, 4)], function=F.relu, gradient=F.relu_backward)
             for n in range(3)]
    wrong = {"function": F.relu, "gradient": F.relu_backward, "shapes": [(3, 4)], **options}
    return [right[0], Pair(name, **wrong), *right[1:]]


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="planted into a fork")
no_fork_warning = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*fork:DeprecationWarning")


@on_linux
@no_fork_warning
@pytest.mark.parametrize("options, words", [
    ({"gradient": lambda dy, saved: 1.000001 * F.relu_backward(dy, saved)}, "worst at x"),
    ({"function": fails}, "it raised ZeroDivisionError: planted"),
    ({"prepare": fails}, "it raised ZeroDivisionError: planted")])
def test_processes_report_what_is_wrong_in_the_order_of_the_cases(
        options, words, monkeypatch, capsys):
    monkeypatch.setattr(audit_module, "PAIRS", relus("planted", **options))
    monkeypatch.setattr(audit_module, "FEW", 0)
    with backend.threads(2):
        assert main(["audit", "planted", "right"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in lines[1:5]] == [
        ["right", "0"], ["planted", "function"], ["right", "1"], ["right", "2"]]
    assert lines[5].startswith("FAIL planted: ") and words in lines[5]
    assert lines[6].startswith("4 cases, 1 wrong")


@on_linux
@no_fork_warning
def test_a_process_that_crashes_is_one_line_with_the_name_of_the_case(monkeypatch, capsys):
    monkeypatch.setattr(audit_module, "PAIRS", relus("planted", function=ends)[1:])
    monkeypatch.setattr(audit_module, "FEW", 0)
    with backend.threads(2):
        assert main(["audit", "planted", "right"]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "crashed or was ended while it checked 'planted'" in errors


@pytest.mark.slow
def test_without_processes_the_cases_run_here(monkeypatch):
    def no_processes(*arguments):
        raise NotImplementedError("no semaphores")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", no_processes)
    monkeypatch.setattr(audit_module, "FEW", 0)
    rows = audit_module.audit(["relu"], processes=2)
    assert len(rows) > 2 and all(row["ok"] for row in rows)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
def test_ctrl_c_ends_all_processes_in_one_line():
    command = [sys.executable, "-c", "from numformer.cli import main; raise SystemExit(main(["
                                     "'audit']))"]
    audit = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
    for line in audit.stdout:
        if line.startswith("ok"):
            break
    os.killpg(audit.pid, signal.SIGINT)
    _, errors = audit.communicate(timeout=120)          # until all processes have closed the pipe
    assert audit.returncode == STOPPED and errors == "numformer: stopped\n"


@pytest.mark.slow
@on_linux
def test_processes_end_with_the_audit_that_started_them():
    """Also if it is killed: they would wait for jobs without end."""
    program = ("import multiprocessing, time\nfrom numformer.verify import audit\n"
               "pool = audit._pool(2)\n[pool.submit(int) for _ in range(9)]\n"
               "print(*[each.pid for each in multiprocessing.active_children()], flush=True)\n"
               "time.sleep(600)\n")
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        others = list(map(int, parent.stdout.readline().split()))
        assert len(others) == 2 and all(map(is_alive, others))
    finally:
        parent.kill()
    parent.wait()
    parent.stdout.close()
    waited_for(lambda: not any(map(is_alive, others)))


def test_the_picture_of_the_audit_marks_what_is_wrong():
    rows = [{"name": name, "kind": kind, "max_error": error, "bound": 1e-12, "ok": error < 1e-12}
            for name, kind, error in (("a", "function", 0.0), ("b", "layer", 1e-15),
                                      ("c", "kernel", 1e-3))]
    histogram, worst = audit_errors(rows).axes
    assert sum(bar.get_height() for bar in histogram.patches) == 3
    assert histogram.get_title() == "2 of 3 cases are within their bounds"
    assert [text.get_text() for text in worst.texts] == ["wrong", "c", "b", "a"]
    _, worst = audit_errors(rows * 9).axes
    assert len([text for text in worst.texts if text.get_text() != "wrong"]) == 12
    _, worst = audit_errors([dict(rows[0], name="n" * 80)]).axes
    assert worst.texts[0].get_text() == "n" * 49 + "…"
    for error in (np.inf, np.nan):                       # an exception, which has no bound either
        _, worst = audit_errors([*rows, dict(rows[0], max_error=error, bound=0.0, ok=False)]).axes
        assert [text.get_text() for text in worst.texts][:3] == ["wrong", "wrong", "a"]
    with pytest.raises(ValueError, match="rows is empty"):
        audit_errors([])


@pytest.mark.parametrize("written, case", slow_among([
    ("rms_norm", "rms norm, unit offset"), ("rms norm", "rms_norm, float32"),
    ("scaled_dot_product_attention", "attention, packed documents"),
    ("RMSNorm", "rms norm, unit offset"), ("FeedForward", "feed-forward silu"),
    ("MultiHeadAttention", "attention, alibi"), ("Convolution2D", "convolution 2-D")], [
        ("FeedForward", "feed-forward silu"), ("MultiHeadAttention", "attention, alibi"),
        ("Convolution2D", "convolution 2-D")]))
def test_a_case_is_found_by_its_name_in_words_and_in_code(written, case):
    names = [name for name, _, _ in audit_module._jobs()]
    found = {names[n] for n in audit_module._of_name(written)}
    assert case in found and len(found) < 60


def test_a_name_that_is_mistyped_is_told(capsys):
    assert main(["audit", "rms_nrom"]) == 2
    assert "(did you mean rms_norm?)" in capsys.readouterr().err
