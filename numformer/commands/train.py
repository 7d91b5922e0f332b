"""numformer train: fit a character-level language model, and leave a run behind."""

import argparse
import inspect
import json
import re
import signal
import sys
import threading
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from pathlib import Path

import numpy as np

from numformer import backend
from numformer.commands import UsageError
from numformer.commands.runs import MISSHAPEN, UNKNOWN, blame, data_argument, load_run, read_facts, run_material
from numformer.commands.show import Progress, draw_pictures, print_json
from numformer.datasets import DOCUMENTATION
from numformer.models import KINDS, BertEncoderConfig, take_over_trunk, trunk_switches
from numformer.tasks import PRESETS, TASKS
from numformer.training import NotFinite, RunFolder, TrainingConfig, load_checkpoint, train, write_atomically

DEFAULT_PRESET = "tiny"
CHANGEABLE = {"steps", "patience"}                                    # settings that a run may be resumed with another value of


def add_arguments(parser):
    parser.add_argument("--preset", default=None, help=f"named settings: {', '.join(PRESETS)} (default: {DEFAULT_PRESET})")
    parser.add_argument("--data", default=None, help=f"a text file, tinyshakespeare, or {DOCUMENTATION} (the default)")
    parser.add_argument("--out", metavar="RUN", default=None, help="folder of the run (default: a new one under runs/)")
    parser.add_argument("--from", dest="start", metavar="RUN", default=None,
                        help="begin with the trunk of another run's model, its sizes and its tokenizer (topics and sbert: of a BERT)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in RUN; its settings lead")
    parser.add_argument("--stop-at", type=int, metavar="STEP", default=None, help="save and stop at this step, to resume later")
    parser.add_argument("--threads", type=int, metavar="N", default=None,
                        help="threads (default: as many as cores); results do not depend on it")
    from_the_data = set().union(*(task.from_the_data for task in TASKS.values()))
    flags = set()
    for title, configs in (("model", [config for _, config in KINDS.values()]), ("training", [TrainingConfig])):
        group = parser.add_argument_group(f"{title} settings, instead of the preset's")
        for config in configs:
            described = described_parameters(config)
            for field in fields(config):
                if field.name not in from_the_data | flags:
                    _add_override(group, field, described.get(field.name, ""))
                    flags.add(field.name)


def described_parameters(config):
    """What the docstrings of a config, and of those that it inherits from, say of each parameter: {name: "type: description"}.

    Examples
    --------
    >>> described_parameters(TrainingConfig)["patience"]
    'int: Stop after this many validations in a row without a gain; 0 for never.'
    """
    pages = [inspect.getdoc(kind) for kind in reversed(config.__mro__) if hasattr(kind, "__dataclass_fields__")]
    sections = "\n".join(page.split("Parameters\n----------\n")[1].split("\n\n")[0] for page in pages)
    entries = re.findall(r"^(\S.*?) : (.*)\n((?:    .*(?:\n|$))*)", sections, flags=re.MULTILINE)
    return {name: f"{kind}: {' '.join(text.split())}" for names, kind, text in entries for name in names.split(", ")}


def _add_override(group, field, described):
    """A flag for one field of a config; None where it was not given."""
    described = described.replace("%", "%%")
    flag, kind = "--" + field.name.replace("_", "-"), field.type
    if kind is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=described)
    else:
        kind = int if kind == int | None else kind
        group.add_argument(flag, type=kind, default=None, metavar={int: "N", float: "X", str: "WORD"}[kind], help=described)


def run(arguments):
    if arguments.threads is not None and arguments.threads < 1:
        raise UsageError(f"--threads {arguments.threads} must be 1 or more.")
    with backend.threads(arguments.threads):
        return _run(arguments)


def run_with(argv):
    """Train as with these words on the command line; the exit status. What would be said on stdout goes to stderr."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    with redirect_stdout(sys.stderr):
        return run(parser.parse_args([str(word) for word in argv]))


def _run(arguments):
    if arguments.resume and not arguments.out:
        raise UsageError("--resume needs the folder of a run: --out RUN.")
    if arguments.resume and arguments.start:
        raise UsageError("--from says how a run begins, but --resume goes on with one; leave one of them out.")
    out = Path(arguments.out) if arguments.out else _new_folder(arguments.preset or DEFAULT_PRESET)
    checkpoint = out / "checkpoint.safetensors"
    if arguments.resume and not checkpoint.exists():
        raise UsageError(f"there is no run in {out} to go on with; check --out, or begin one without --resume.")
    if checkpoint.exists() and not arguments.resume:
        raise UsageError(f"{out} holds a run already; add --resume to go on with it, or choose another --out.")
    task, trainer, tokenizer, facts = _resumed(arguments, checkpoint) if arguments.resume else _new(arguments)
    stop_at = arguments.stop_at
    if stop_at is not None and not trainer.step < stop_at <= trainer.config.steps:
        raise UsageError(f"--stop-at {stop_at} must come after step {trainer.step} and not after the last, {trainer.config.steps}.")
    try:
        folder = RunFolder(out)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be made a folder: {error.strerror}; choose another.") from None

    progress = Progress(trainer, tokenizer, task)
    try:
        with _stop_signals() as stopped:
            if not arguments.resume:
                folder.save(checkpoint, trainer, facts)               # first of all: from here on there is something to resume
            folder.open(trainer.step, trainer.evaluated_at)
            told = ("preset", "task", "data", "model", "training", "from")
            write_atomically(folder.config, _pretty({name: facts[name] for name in told if name in facts}))
            ended = train(trainer, folder, facts, progress.stepped, progress.evaluated,
                          lambda: bool(stopped) or trainer.step == stop_at != trainer.config.steps)
    except BrokenPipeError:
        raise
    except OSError as error:
        cure = f"{checkpoint} is whole: make room, then go on with: numformer train --resume --out {out}"
        raise OSError(f"{error.filename or folder.metrics}: {error.strerror}; {cure if checkpoint.exists() else 'make room'}") from None
    except NotFinite as error:
        raise NotFinite(f"{error} The last checkpoint stays in {out}; choose another --out.") from None
    finally:
        progress.close()
        folder.close()
    metrics = folder.read_metrics()
    draw_pictures(folder, trainer.model, tokenizer, task, metrics)
    losses = [line["loss"] for line in metrics if "loss" in line][-100:]
    result = {
        "steps": trainer.step, "tokens": trainer.tokens, "train_seconds": round(trainer.seconds, 3),
        "train_loss": float(np.mean(losses)) if losses else None,
        "val_loss": trainer.val_loss, "best_val_loss": trainer.best_loss, "val_blocks": trainer.config.eval_blocks or "all",
        "parameters": sum(p.data.size for p in trainer.model.parameters()), "run": str(out), "ended": ended,
    }
    _say_the_end(result, trainer, task, stopped, arguments)
    return 1 if stopped else 0


def _new(arguments):
    """The task, a trainer at step 0, its tokenizer, and the facts for its checkpoint."""
    preset = arguments.preset or DEFAULT_PRESET
    if preset not in PRESETS:
        raise UsageError(f"--preset {preset} is unknown; choose from {', '.join(PRESETS)}.")
    chosen = PRESETS[preset]
    task, config = TASKS[chosen.task], KINDS[chosen.kind][1]
    training = _config(TrainingConfig, {**chosen.training, **_overrides(arguments, TrainingConfig)})
    # Some settings come with the data; whatever else is wrong is said before it is read.
    start, start_tokenizer = _start(arguments, chosen.kind, preset)
    switches = {**chosen.model, **({} if start is None else trunk_switches(start.config)), **_overrides(arguments, config)}
    _refuse_others(arguments, chosen.kind, task, preset)
    _config(config, {**switches, **dict.fromkeys(task.from_the_data, 1)})
    data = task.default_data if arguments.data is None else arguments.data
    material = task.load(data)
    tokenizer = task.tokenizer(material) if start is None else start_tokenizer
    model = _config(config, {**switches, **task.switches(tokenizer)})
    facts = {
        "preset": preset, "task": task.name,
        "data": {"argument": data_argument(data), "name": material.name, "sha256": material.sha256, "characters": len(material)},
        "model": {"kind": chosen.kind, "config": model.as_dict()},
        "training": training.as_dict(),
        "tokenizer": tokenizer.to_json() if task.tokens else None,
    }
    trainer = new_trainer(task, chosen.kind, model, training, tokenizer, material)
    if start is not None:
        facts["from"] = str(Path(arguments.start).resolve())
        try:
            take_over_trunk(trainer.model, start)
        except ValueError as error:
            raise UsageError(f"--from {arguments.start}: {error} Leave out the settings that change its shape.") from None
    if task.measured_before:
        facts["before"] = task.measure(trainer.model, tokenizer, material)
    return task, trainer, tokenizer, facts


def _start(arguments, kind, preset):
    """The model and the tokenizer of the run to begin with; (None, None) where none is wanted."""
    if arguments.start is None:
        return None, None
    if not issubclass(KINDS[kind][1], BertEncoderConfig):
        raise UsageError(f"--from is for models on a BERT's trunk, but {preset} trains {kind}; leave it out.")
    model, tokenizer, facts, _ = load_run(arguments.start)
    if not isinstance(model.config, BertEncoderConfig):
        raise UsageError(f"--from {arguments.start}: its model, a {facts['model']['kind']}, has no trunk to begin with; "
                         "give the run of a BERT.")
    return model, tokenizer


def _refuse_others(arguments, kind, task, whose):
    """Flags of other models than this kind are a mistake, and those that the task's trainer has no use for."""
    known = {field.name for field in fields(KINDS[kind][1])}
    for _, config in KINDS.values():
        for name in _overrides(arguments, config):
            if name not in known:
                raise UsageError(f"--{name.replace('_', '-')} is no setting of {kind}, which {whose} trains; leave it out.")
    for name in _overrides(arguments, TrainingConfig):
        if name in task.unused:
            raise UsageError(f"--{name.replace('_', '-')} means nothing to {whose}, which is trained without a gradient; leave it out.")


def _resumed(arguments, checkpoint):
    """The task, a trainer in the state of a checkpoint, ...; the file's settings lead, whatever the presets say today."""
    arrays, facts = load_checkpoint(checkpoint)
    task, kind, model, tokenizer = read_facts(facts, checkpoint)
    facts.setdefault("task", task.name)
    progress = facts.pop("progress", None)
    if arguments.preset not in (None, facts.get("preset")):
        raise UsageError(f"--preset {arguments.preset} is not the preset of {checkpoint.parent}, {facts.get('preset')}; leave it out.")
    _refuse_others(arguments, kind, task, checkpoint.parent)
    settings = {**facts["model"]["config"], **facts["training"]}
    given = {**_overrides(arguments, KINDS[kind][1]), **_overrides(arguments, TrainingConfig)}
    for name, value in given.items():
        if name not in CHANGEABLE and settings.get(name) != value:
            raise UsageError(f"--{name.replace('_', '-')} {value} is not what {checkpoint.parent} was begun with, {settings.get(name)}; "
                             "leave it out, or begin a new run.")
    with blame(checkpoint, UNKNOWN):
        training = TrainingConfig(**facts["training"])
    changed = {name: value for name, value in given.items() if name in CHANGEABLE}
    training = _config(TrainingConfig, {**training.as_dict(), **changed})
    facts["training"] = training.as_dict()
    trainer = new_trainer(task, kind, model, training, tokenizer, run_material(task, facts, arguments.data))
    with blame(checkpoint, MISSHAPEN):
        trainer.load_state_dict(arrays, progress or {})
    if "steps" in changed and changed["steps"] < trainer.step:
        raise UsageError(f"--steps {changed['steps']} have been taken already: {checkpoint.parent} is at step {trainer.step}.")
    return task, trainer, tokenizer, facts


def new_trainer(task, kind, model_config, config, tokenizer, material):
    """What trains a model of that kind and config from the beginning."""
    stream = task.stream(material, tokenizer, model_config, config)
    validation = task.validation(material, tokenizer, model_config, config.eval_blocks or None)
    model = KINDS[kind][0](model_config, np.random.default_rng([config.seed, 0]))     # 0: the weights' branch of the seed
    return task.trainer(model, stream, validation, config)


def _overrides(arguments, config):
    """The fields of a config that were given as flags."""
    given = {field.name: getattr(arguments, field.name, None) for field in fields(config)}
    return {name: value for name, value in given.items() if value is not None}


def _config(kind, settings):
    try:
        return kind(**settings)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _new_folder(preset):
    """The first of runs/PRESET, runs/PRESET-2, ... that is not there."""
    number, path = 1, Path("runs") / preset
    while path.exists():
        number += 1
        path = Path("runs") / f"{preset}-{number}"
    return path


def _pretty(value):
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


@contextmanager
def _stop_signals():
    """A list that is empty until Ctrl-C or SIGTERM came. The second time, the signal does what it always does."""
    stopped, before = [], {}

    def stop(number, frame):
        stopped.append(number)
        signal.signal(number, before[number])
        print("\nstopping after this step; once more stops at once, without saving", file=sys.stderr, flush=True)

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_the_end(result, trainer, task, stopped, arguments):
    out, config, verb = result["run"], trainer.config, "sample" if hasattr(trainer.model, "step") else "eval"
    if result["ended"] == "stopped":
        text = f"stopped at step {trainer.step} of {config.steps}; go on with:\n  numformer train --resume --out {out}"
        print(text, file=sys.stderr if stopped else sys.stdout)
    elif result["val_loss"] is not None:
        print(f"{result['ended']} at step {trainer.step}: validation loss {result['val_loss']:.4f} {task.unit} "
              f"(best {trainer.best_loss:.4f} at step {trainer.best_step}). Next:\n  numformer {verb} {out}")
    else:
        print(f"{result['ended']} at step {trainer.step}. Next:\n  numformer {verb} {out}")
    if arguments.json:
        print_json(result)
