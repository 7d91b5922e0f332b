"""numformer train: train a model; by default a character-level language model.

    numformer train --data text.txt --snapshots 2 --n-layers 1 --n-heads 2 --d-model 8 \\
        --context-length 16 --batch-size 2 --warmup-steps 2 --steps 2 --eval-every 0 \\
        --save-every 0 --out trained
"""

import argparse
import sys
from contextlib import ExitStack, closing, redirect_stdout
from functools import partial

import numpy as np

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.parallel import ranks
from numformer.commands.shared.flags import add_config_flags
from numformer.commands.shared.folders import (
    check_out, folder_to_resume, how_to_go_on, new_folder, resume_command)
from numformer.commands.shared.next_commands import next_commands
from numformer.commands.shared.output import (
    NoProgress, Progress, draw_pictures, in_words, lines_of, print_json)
from numformer.commands.shared.process import stop_signals
from numformer.commands.shared.train_help import train_help
from numformer.commands.shared.trainers import new_run, resumed_run
from numformer.data import DOCUMENTATION
from numformer.recipes import PRESETS
from numformer.runs import snapshot_steps
from numformer.runs.snapshots import FEWEST, MOST
from numformer.terminal import show_text
from numformer.training import CountingTrainer, NotFinite, train

DEFAULT_PRESET = "tiny"
SIZE_OF_40 = "55 MB"                                  # of snapshots of the default preset


def add_arguments(parser):
    parser.add_argument("--help-all", action="help", help="show all options of the preset")
    parser.add_argument("--preset", default=None, metavar="P",
                        help=f"the model, its data and its options (default: {DEFAULT_PRESET}). "
                        f"One of {', '.join(PRESETS)}.")
    parser.add_argument("--data", default=None, metavar="D", help="a text file, "
                        f"tinyshakespeare, world, or {DOCUMENTATION} (the default)")
    parser.add_argument("--out", metavar="RUN", default=None,
                        help="folder of the run (default: a new one in runs/)")
    parser.add_argument("--from", dest="start", metavar="RUN", default=None,
                        help="start with the weights, sizes and tokenizer of another run, such as "
                        "an imported one (of BERTs of another kind: with the backbone); tinybert "
                        "learns from it as its teacher")
    parser.add_argument("--resume", action="store_true",
                        help="continue the run in RUN with its stored options")
    parser.add_argument("--stop-at", type=int, metavar="STEP", default=None,
                        help="save and stop at this step, to resume later")
    parser.add_argument("--snapshots", type=int, metavar="N", default=None,
                        help="keep the weights of N steps, dense at first, for `numformer replay`: "
                        "each 4 bytes a parameter, together "
                        f"{SIZE_OF_40} for 40 of {DEFAULT_PRESET}")
    parser.add_argument("--threads", type=int, metavar="N", default=None,
                        help="number of threads (default: all cores; of each rank of "
                        "mpirun: those it is bound to, or its share); results do not depend on it")
    add_config_flags(parser)
    parser.help_of = partial(train_help, default=DEFAULT_PRESET)


def run(arguments):
    if arguments.threads is not None and arguments.threads < 1:
        raise UsageError(f"--threads {arguments.threads} must be 1 or more.")
    group = ranks.start()
    with backend.threads(group.threads(arguments.threads)):
        return _run(arguments, group)


def run_with(argv):
    """Train with these command-line arguments; return the exit status. Stdout goes to stderr."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    with redirect_stdout(sys.stderr):
        return run(parser.parse_args([str(word) for word in argv]))


def _run(arguments, group):
    with ExitStack() as stack:
        with group.together():
            check_out(arguments)
            _check_snapshots(arguments.snapshots)
            if not arguments.resume:
                run = _new_run(arguments)
        with group.together():
            folder = stack.enter_context(closing(group.folder(
                lambda: folder_to_resume(arguments.out) if arguments.resume else
                new_folder(arguments.out, arguments.preset or DEFAULT_PRESET))))
        with group.together():
            if arguments.resume:
                run = resumed_run(arguments, folder.checkpoint)
                _check_stop(arguments.stop_at, run[1])
        with group.together():
            snapshots = group.same(_planned(folder, arguments.snapshots) if arguments.resume and
                                   group.first else arguments.snapshots)
        with group.together():
            group.join(run[1], run[3])
        try:
            with group.guard(folder, partial(_explained, folder), resume_command(folder.path)):
                result, stopped, pictures = _trained(arguments, group, folder, snapshots, *run)
        except OSError as error:
            raise OSError(how_to_go_on(error, folder)) from None
        except NotFinite as error:
            raise NotFinite(_diverged(folder, error)) from None
        except KeyboardInterrupt:
            if not folder.checkpoint.exists():
                raise
            raise KeyboardInterrupt("without saving; resume from the last checkpoint with: "
                                    + resume_command(folder.path)) from None
    _print_result(result, run, stopped, pictures, snapshots)
    if arguments.json:
        print_json(result)
    return 1 if stopped and result["ended"] == "stopped" else 0      # a signal may come too late


def _new_run(arguments):
    preset = arguments.preset or DEFAULT_PRESET
    run = new_run(arguments, preset)
    _check_stop(arguments.stop_at, run[1])
    if arguments.snapshots is not None and isinstance(run[1], CountingTrainer):
        raise UsageError(f"--snapshots: {preset} counts n-grams and has no weights; leave it out.")
    return run


def _explained(folder, error):
    """The line for an error that one rank alone has."""
    if isinstance(error, OSError):
        return how_to_go_on(error, folder)
    if isinstance(error, NotFinite):
        return _diverged(folder, error)
    if isinstance(error, KeyboardInterrupt):
        return f"stopped without saving; resume with: {resume_command(folder.path)}"
    return f"{type(error).__name__}: {error}; resume with: {resume_command(folder.path)}"


def _diverged(folder, error):
    kept = (f"The last checkpoint is kept in {folder.path}; choose another --out."
            if folder.checkpoint.exists() else "No checkpoint was saved.")
    return f"{error} {kept}"


def _trained(arguments, group, folder, snapshots, task, trainer, tokenizer, facts):
    """Train in a locked folder; return the result, whether signals stopped it, and the pictures."""
    steps, stop_at = trainer.config.steps, arguments.stop_at
    shown = Progress if group.first else NoProgress
    with (closing(shown(trainer, tokenizer, task)) as progress,
          stop_signals(group.signals, silent=not group.first) as stopped):
        if not arguments.resume:
            progress.begin(facts, folder.path)
            folder.snapshots.begin(snapshots)
            folder.save(folder.checkpoint, trainer, facts)           # from now on it can be resumed
        folder.open(trainer.step, trainer.evaluated_at)
        folder.describe(facts)
        due = () if snapshots is None else snapshot_steps(snapshots, steps)
        ended = train(trainer, folder, facts, progress.stepped, progress.evaluated,
                      lambda: bool(stopped) or trainer.step == stop_at != steps, due,
                      task.unit_of(tokenizer).startswith("nats"))
        stopped = trainer.agree(bool(stopped))
    metrics = folder.read_metrics()
    pictures = []
    if group.first:
        pictures = draw_pictures(folder, trainer.model, tokenizer, task, metrics)
    losses = [line["loss"] for line in metrics if "loss" in line][-100:]
    return {
        "steps": trainer.step, "tokens": trainer.n_targets,
        "train_seconds": round(trainer.seconds, 3),
        "train_loss": float(np.mean(losses)) if losses else None,
        "val_loss": trainer.val_loss, "best_val_loss": trainer.best_loss,
        "val_blocks": trainer.config.eval_blocks or "all",
        "parameters": sum(p.data.size for p in trainer.model.parameters()),
        "blas": facts["blas"], "run": str(folder.path), "ended": ended,
    }, stopped, pictures


def _check_stop(stop_at, trainer):
    if stop_at is not None and not trainer.step < stop_at <= trainer.config.steps:
        raise UsageError(f"--stop-at {stop_at} must be greater than the current step, "
                         f"{trainer.step}, and at most the last, {trainer.config.steps}.")


def _check_snapshots(count):
    if count is not None and not FEWEST <= count <= MOST:
        raise UsageError(f"--snapshots {count} must be {FEWEST} to {MOST}.")


def _planned(folder, count):
    """The number of snapshots of a run that is resumed."""
    planned = folder.snapshots.count()
    if count not in (None, planned):
        raise UsageError(f"--snapshots {count} differs from that of {folder.path}, "
                         f"{'none' if planned is None else planned}; leave it out, or begin a new "
                         "run.")
    return planned


def _print_result(result, run, stopped, pictures, snapshots):
    task, trainer, tokenizer, _ = run
    folder = result["run"]
    if result["ended"] == "stopped":
        text = (f"stopped at step {trainer.step} of {trainer.config.steps}; resume with:\n"
                f"  {resume_command(folder)}")
    else:
        loss, facts = "", [f"{in_words(trainer.seconds)} of training"] * (trainer.seconds >= 2)
        if result["val_loss"] is not None:
            loss = f": validation loss {result['val_loss']:.4f} {task.unit_of(tokenizer)}"
            facts.append(f"best {trainer.best_loss:.4f} at step {trainer.best_step}")
        facts += [f"pictures: {', '.join(pictures)}"] * bool(pictures)
        text = f"{result['ended']} at step {trainer.step}{loss}\n"
        text += "".join(lines_of(f"  {fact}") + "\n" for fact in facts) + "Next:\n"
        text += "\n".join(next_commands(task, trainer.model, tokenizer, folder, snapshots))
    show_text(text + "\n", sys.stderr if result["ended"] == "stopped" and stopped else sys.stdout)
