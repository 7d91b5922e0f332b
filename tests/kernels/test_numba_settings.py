"""What Numba cannot read in the environment is one line."""

import os
import subprocess
import sys
import warnings

import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime.numba_settings import (  # noqa: E402  (needs Numba)
    check_processor, import_numba)


def test_a_variable_that_cannot_be_parsed_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "x\x1b[2J")
    import_numba(lambda: warnings.warn(
        "Environment variable 'NUMBA_NUM_THREADS' is defined but its associated value 'x' could "
        "not be parsed.\nThe parse failed with exception:\nTraceback (most recent call last):\n"
        "ValueError", RuntimeWarning))
    assert capsys.readouterr().err == (
        "numformer: Numba cannot read NUMBA_NUM_THREADS=x\\x1b[2J and takes its default; correct "
        "the variable, or leave it out\n")


def test_other_warnings_stay():
    with pytest.warns(UserWarning, match="other"):
        import_numba(lambda: warnings.warn("other"))


def test_a_value_that_is_refused_is_named(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "0")

    def refuse():
        raise ValueError("Number of threads specified must be > 0.")
    with pytest.raises(ValueError, match="NUMBA_NUM_THREADS=0.*; correct them, or leave them out"):
        import_numba(refuse)


def test_an_absent_numba_stays_absent():
    def missing():
        raise ImportError("numba")
    with pytest.raises(ImportError):
        import_numba(missing)


@pytest.mark.parametrize("output, words", [
    ("'foo' is not a recognized processor for this target (ignoring processor)\nLLVM ERROR: 64-bit",
     "'foo' is not a recognized processor for this target. "),
    ("LLVM ERROR: \x1b[2J", r"LLVM ERROR: \x1b[2J. "), ("", "LLVM ends. ")])
def test_what_llvm_says_of_a_processor_is_one_line(output, words, monkeypatch):
    monkeypatch.setenv("NUMBA_CPU_NAME", "foo")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: subprocess.CompletedProcess(
        command, -6, "", output))
    check_processor(None, None)
    with pytest.raises(ValueError) as caught:
        check_processor("foo", None)
    assert str(caught.value).startswith(f"Numba cannot compile: {words}Its settings in the envi")
    assert str(caught.value).endswith("NUMBA_CPU_NAME=foo; correct them, or leave them out.")


@pytest.mark.slow
@pytest.mark.parametrize("name, features, words", [
    ("foo", "+nonsense", "'foo' is not a recognized processor"), ("foo", None, "'foo' is not"),
    (None, "+nonsense", "'[+]nonsense' is not a recognized feature")])
def test_processors_that_llvm_does_not_know_are_refused(name, features, words):
    check_processor("generic", "")
    with pytest.raises(ValueError, match=f"^Numba cannot compile: {words}.* this target[.] Its"):
        check_processor(name, features)


@pytest.mark.slow
@pytest.mark.parametrize("value, words", [
    ("x", "numformer: Numba cannot read NUMBA_NUM_THREADS=x and takes its default; correct the "
     "variable, or leave it out\n"),
    ("0", "NUMBA_NUM_THREADS=0; correct them, or leave them out")])
def test_whatever_imports_numba_first(value, words):
    """In a process of its own, by the function that all kernels come through."""
    found = subprocess.run(
        [sys.executable, "-c", "from numformer import backend\n"
         "try:\n    backend.why_no_kernels()\nexcept ValueError as error:\n    print(error)"],
        env={**os.environ, "NUMBA_NUM_THREADS": value}, capture_output=True, text=True)
    assert found.returncode == 0 and "Traceback" not in found.stderr
    assert found.stderr == words if value == "x" else words in found.stdout


@pytest.mark.slow
def test_a_processor_that_llvm_does_not_know_ends_no_process():
    found = subprocess.run([sys.executable, "-m", "numformer", "doctor"],
                           env={**os.environ, "NUMBA_CPU_NAME": "foo", "NUMBA_CPU_FEATURES": "+x"},
                           capture_output=True, text=True)
    assert found.returncode == 1 and not found.stderr
    assert "FAIL  kernels                 it raised ValueError: Numba cannot comp" in found.stdout


def cause(error):
    """What is said where the import of Numba raises an error."""
    def refuse():
        raise error
    with pytest.raises(ValueError) as caught:
        import_numba(refuse)
    return str(caught.value)


@pytest.fixture
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        monkeypatch.delenv(name)


def test_a_settings_file_that_cannot_be_read_is_named(no_variables, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".numba_config.yaml").write_text("[")
    said = cause(ValueError("while parsing a flow sequence"))
    assert said == ("Numba cannot be imported: while parsing a flow sequence; correct or remove "
                    f"{tmp_path / '.numba_config.yaml'}.")
    assert "environment" not in said


def test_a_cause_that_is_no_setting_blames_none(no_variables, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cause(OSError("no disk")) == "Numba cannot be imported: no disk"


@pytest.mark.skipif(os.name != "posix", reason="a working folder cannot be removed")
def test_a_working_folder_that_is_gone_is_named(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cause(FileNotFoundError(2, "No such file or directory")) == (
        "Numba cannot be imported: the working folder no longer exists; change to another one.")
