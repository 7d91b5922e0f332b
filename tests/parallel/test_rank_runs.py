"""`mpirun -n N numformer train`: files, resuming, signals, deaths and errors."""

import os
import signal
import subprocess
import sys
import time

import pytest

from command import SMALL, call, content
from numformer.commands import UsageError
from numformer.commands.shared import memory, process
from numformer.models import DecoderConfig
from numformer.training import TrainingConfig
from ranks import mpirun, needs_mpi, ranks_of, started

TRAIN = sys.executable, "-m", "numformer", "train"
SETTINGS = ["--steps", 40, "--eval-every", 15, "--save-every", 5, "--shards", 4, *SMALL]
LONG = ["--steps", 100_000, "--eval-every", 0, "--save-every", 10, "--shards", 4, *SMALL]
WITHIN = 300                                          # seconds: nobody hangs


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory):
    """The files of a run without MPI."""
    import contextlib
    import io

    from numformer.cli import main

    out = tmp_path_factory.mktemp("alone") / "run"
    argv = ["train", "--data", text, "--out", out, *SETTINGS]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main([str(word) for word in argv]) == 0
    return content(out)


@needs_mpi
def test_four_ranks_then_one_then_two_resume_to_the_byte(alone, text, tmp_path, capsys):
    out = tmp_path / "run"
    done = mpirun(4, *TRAIN, "--data", text, "--out", out, *SETTINGS, "--stop-at", 13)
    assert done.returncode == 0 and "stopped at step 13 of 40" in done.stdout + done.stderr
    assert call(capsys, "train", "--resume", "--out", out, "--stop-at", 22)[0] == 0
    done = mpirun(2, *TRAIN, "--resume", "--out", out)
    assert done.returncode == 0 and done.stdout.count("finished at step 40") == 1
    assert content(out) == alone


@needs_mpi
def test_three_ranks_write_the_same_files(alone, text, tmp_path):
    out = tmp_path / "run"
    done = mpirun(3, *TRAIN, "--data", text, "--out", out, *SETTINGS, "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("step 15: loss") == 1
    assert content(out) == alone


@needs_mpi
@pytest.mark.parametrize("argv, words", [
    (["--shards", "2"], "3 ranks need as many shards, but --shards is 2; give --shards 3 or more."),
    (["--preset", "none"], "--preset none is unknown"), (["--n-heads", "5"], "n_heads=5")])
def test_wrong_usage_is_said_once(argv, words, text, tmp_path):
    done = mpirun(3, *TRAIN, "--data", text, "--out", tmp_path / "run", *SMALL, *argv)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.count("numformer: ") == 1 and words in done.stderr


@needs_mpi
@pytest.mark.parametrize("other, words", [
    (["doctor"], "rank 1 has doctor where rank 0 has train"),
    (["train", "--no-such-flag"], "rank 1 has --no-such-flag where rank 0 has nothing")])
def test_ranks_with_other_arguments_end_with_one_line(other, words, tmp_path):
    program = [sys.executable, "-m", "numformer"]
    done = mpirun(1, *program, "train", ":", "-n", 1, *program, *other, cwd=tmp_path)
    said = [line for line in done.stderr.splitlines() if line.startswith("numformer:")]
    assert done.returncode and said == [f"numformer: {words}; give all ranks the same verb and "
                                        "options."]
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


@needs_mpi
def test_verbs_of_a_shell_on_each_rank_have_nothing_to_do_with_mpi(tmp_path):
    program = f"{sys.executable} -m numformer"
    done = mpirun(2, "sh", "-c", f"{program} count gpt2 && {program} count gpt2", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("gpt2: 12 layers") == 2, done.stderr


@needs_mpi
def test_a_folder_in_use_is_said_once(text, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"")
    done = mpirun(2, *TRAIN, "--data", text, "--out", tmp_path / "run", *SMALL)
    assert done.returncode == 2 and done.stderr.count("contains a run already") == 1


def begun(n, text, tmp_path):
    """(Popen of mpirun, the folder) of a long training that has taken a few steps."""
    out = tmp_path / "run"
    process = started(n, tmp_path / "log", *TRAIN, "--data", text, "--out", out, *LONG)
    until = time.monotonic() + 120
    while not (out / "metrics.jsonl").exists() or (out / "metrics.jsonl").stat().st_size < 2000:
        assert process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()
        time.sleep(0.1)
    return process, out


@needs_mpi
@pytest.mark.parametrize("name, rank", [("SIGTERM", 1), ("SIGHUP", 2), ("SIGUSR1", 0)])
def test_a_signal_to_one_rank_stops_all_after_the_same_step(name, rank, text, tmp_path, capsys):
    process, out = begun(3, text, tmp_path)
    os.kill(ranks_of(out)[rank], getattr(signal, name))
    assert process.wait(timeout=WITHIN) != 0
    said = (tmp_path / "log").read_text()
    assert said.count(": resume with:") + said.count("; resume with:") == 1, said
    step = int(said.split("stopped at step ")[1].split()[0])
    assert len((out / "metrics.jsonl").read_text().splitlines()) == step
    assert call(capsys, "train", "--resume", "--out", out, "--stop-at", step + 3)[0] == 0


@needs_mpi
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_when_a_rank_dies_the_others_end_with_one_line(rank, text, tmp_path, capsys):
    process, out = begun(3, text, tmp_path)
    ranks = ranks_of(out)
    os.kill(ranks[rank], signal.SIGKILL)
    assert process.wait(timeout=WITHIN) != 0 and not ranks_of(out)
    said = (tmp_path / "log").read_text()
    assert said.count("has ended unexpectedly") <= 1 and "Traceback" not in said
    steps = len((out / "metrics.jsonl").read_text().splitlines())
    assert call(capsys, "train", "--resume", "--out", out, "--stop-at", steps + 11)[0] == 0


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"])
def test_the_rank_is_read_from_the_environment(name, monkeypatch):
    for each in process.RANKS:
        monkeypatch.delenv(each, raising=False)
    assert process.launched_rank() is None
    monkeypatch.setenv(name, "3")
    assert process.launched_rank() == 3


@pytest.mark.slow
def test_without_mpirun_nothing_of_mpi_is_imported(text, tmp_path):
    program = (f"import sys; from numformer.cli import main; main(['train', '--data', "
               f"{str(text)!r}, '--out', {str(tmp_path / 'run')!r}, '--steps', '2', *{SMALL!r}]); "
               "assert 'mpi4py' not in sys.modules")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_ranks_without_mpi4py_say_what_to_install(text, tmp_path):
    program = (f"import sys; sys.modules['mpi4py'] = None; from numformer.cli import main; "
               f"sys.exit(main(['train', '--data', {str(text)!r}, *{SMALL!r}]))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "PMI_RANK": "0"}, cwd=tmp_path)
    assert done.returncode == 2 and "pip install 'numformer[mpi]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_each_rank_needs_memory_for_its_own_shards(monkeypatch):
    config = DecoderConfig(vocab_size=11, context_length=16, n_layers=2, n_heads=2, d_model=64)
    monkeypatch.setattr(memory, "physical_memory", lambda: 10**6)     # bytes
    training = TrainingConfig(steps=1, batch_size=64, shards=64)
    with pytest.raises(UsageError, match="In training a number takes .* but this machine"):
        memory.check_memory("Decoder", config, training, 16)
    monkeypatch.setenv("PMI_RANK", "0")
    memory.check_memory("Decoder", config, training, 16)
