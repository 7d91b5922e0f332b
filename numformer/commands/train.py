"""numformer train: train a model and write a run."""

import argparse
import json
import signal
import sys
import threading
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.shared.flags import add_config_flags
from numformer.commands.shared.output import Progress, draw_pictures, print_json
from numformer.commands.shared.trainers import new_run, resumed_run
from numformer.data import DOCUMENTATION
from numformer.recipes import PRESETS
from numformer.training import NotFinite, RunFolder, train, write_atomically

DEFAULT_PRESET = "tiny"
DESCRIBED = ("preset", "task", "data", "model", "recipe", "training", "from")     # in config.json


def add_arguments(parser):
    parser.add_argument("--preset", default=None, help="model, data and options of a named preset: "
                        f"{', '.join(PRESETS)} (default: {DEFAULT_PRESET})")
    parser.add_argument("--data", default=None, help="a text file, tinyshakespeare, or "
                        f"{DOCUMENTATION} (the default)")
    parser.add_argument("--out", metavar="RUN", default=None,
                        help="folder of the run (default: a new one in runs/)")
    parser.add_argument("--from", dest="start", metavar="RUN", default=None,
                        help="start with the backbone, sizes and tokenizer of another run "
                        "(topics and sbert: of a BERT)")
    parser.add_argument("--resume", action="store_true",
                        help="continue the run in RUN with its stored options")
    parser.add_argument("--stop-at", type=int, metavar="STEP", default=None,
                        help="save and stop at this step, to resume later")
    parser.add_argument("--threads", type=int, metavar="N", default=None,
                        help="number of threads (default: all cores); results do not depend on it")
    add_config_flags(parser)


def run(arguments):
    if arguments.threads is not None and arguments.threads < 1:
        raise UsageError(f"--threads {arguments.threads} must be 1 or more.")
    with backend.threads(arguments.threads):
        return _run(arguments)


def run_with(argv):
    """Train with these command-line arguments; return the exit status. Stdout goes to stderr."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    with redirect_stdout(sys.stderr):
        return run(parser.parse_args([str(word) for word in argv]))


def _run(arguments):
    preset = arguments.preset or DEFAULT_PRESET
    out = _out_folder(arguments, preset)
    checkpoint = out / "checkpoint.safetensors"
    task, trainer, tokenizer, facts = (
        resumed_run(arguments, checkpoint) if arguments.resume else new_run(arguments, preset))
    stop_at = arguments.stop_at
    if stop_at is not None and not trainer.step < stop_at <= trainer.config.steps:
        raise UsageError(f"--stop-at {stop_at} must be greater than the current step, "
                         f"{trainer.step}, and at most the last, {trainer.config.steps}.")
    try:
        folder = RunFolder(out)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be created: {error.strerror}; "
                         "choose another.") from None

    progress = Progress(trainer, tokenizer, task)
    try:
        with _stop_signals() as stopped:
            if not arguments.resume:
                folder.save(checkpoint, trainer, facts)              # from now on it can be resumed
            folder.open(trainer.step, trainer.evaluated_at)
            described = {name: facts[name] for name in DESCRIBED if name in facts}
            write_atomically(folder.config, _pretty(described))
            ended = train(trainer, folder, facts, progress.stepped, progress.evaluated,
                          lambda: bool(stopped) or trainer.step == stop_at != trainer.config.steps)
    except BrokenPipeError:
        raise
    except OSError as error:
        cure = "free some space"
        if checkpoint.exists():
            cure = (f"{checkpoint} is intact: free some space, then resume with: "
                    f"numformer train --resume --out {out}")
        raise OSError(f"{error.filename or folder.metrics}: {error.strerror}; {cure}") from None
    except NotFinite as error:
        raise NotFinite(f"{error} The last checkpoint is kept in {out}; "
                        "choose another --out.") from None
    finally:
        progress.close()
        folder.close()
    metrics = folder.read_metrics()
    draw_pictures(folder, trainer.model, tokenizer, task, metrics)
    losses = [line["loss"] for line in metrics if "loss" in line][-100:]
    result = {
        "steps": trainer.step, "tokens": trainer.n_targets,
        "train_seconds": round(trainer.seconds, 3),
        "train_loss": float(np.mean(losses)) if losses else None,
        "val_loss": trainer.val_loss, "best_val_loss": trainer.best_loss,
        "val_blocks": trainer.config.eval_blocks or "all",
        "parameters": sum(p.data.size for p in trainer.model.parameters()),
        "run": str(out), "ended": ended,
    }
    _print_result(result, trainer, task, stopped)
    if arguments.json:
        print_json(result)
    return 1 if stopped else 0


def _out_folder(arguments, preset):
    """The folder of the run: --out, or the first free one of runs/PRESET, runs/PRESET-2, ..."""
    if arguments.resume and not arguments.out:
        raise UsageError("--resume needs the folder of a run: --out RUN.")
    if arguments.resume and arguments.start:
        raise UsageError("--from begins a new run, but --resume continues one; "
                         "leave one of them out.")
    if not arguments.out:
        number, path = 1, Path("runs") / preset
        while path.exists():
            number += 1
            path = Path("runs") / f"{preset}-{number}"
        return path
    out = Path(arguments.out)
    exists = (out / "checkpoint.safetensors").exists()
    if arguments.resume and not exists:
        raise UsageError(f"there is no run in {out} to resume; check --out, or begin a new run "
                         "without --resume.")
    if exists and not arguments.resume:
        raise UsageError(f"{out} contains a run already; add --resume to continue it, "
                         "or choose another --out.")
    return out


def _pretty(value):
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


@contextmanager
def _stop_signals():
    """A list that is empty until Ctrl-C or SIGTERM. A second signal has its usual effect."""
    stopped, before = [], {}

    def stop(number, frame):
        stopped.append(number)
        signal.signal(number, before[number])
        print("\nstopping after this step; once more stops at once, without saving",
              file=sys.stderr, flush=True)

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, stop)
                  for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_result(result, trainer, task, stopped):
    out, verb = result["run"], "sample" if hasattr(trainer.model, "step") else "eval"
    if result["ended"] == "stopped":
        text = (f"stopped at step {trainer.step} of {trainer.config.steps}; resume with:\n"
                f"  numformer train --resume --out {out}")
        print(text, file=sys.stderr if stopped else sys.stdout)
    elif result["val_loss"] is not None:
        print(f"{result['ended']} at step {trainer.step}: validation loss "
              f"{result['val_loss']:.4f} {task.unit} (best {trainer.best_loss:.4f} at step "
              f"{trainer.best_step}). Next:\n  numformer {verb} {out}")
    else:
        print(f"{result['ended']} at step {trainer.step}. Next:\n  numformer {verb} {out}")
