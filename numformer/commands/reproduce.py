"""numformer reproduce: train presets with several seeds and write a table of their results.

    numformer reproduce ngram --data text.txt --seeds 1 --out again
"""

import json
import math
import statistics
import sys
import time
from pathlib import Path

from numformer import backend
from numformer.commands import UsageError, train
from numformer.commands.eval import evaluated
from numformer.commands.shared.output import print_json, save_picture
from numformer.experiments import EXPERIMENTS
from numformer.files import MIB, parse_json, read_file, write_atomically
from numformer.recipes import PRESETS, all_claims, preset_and_start
from numformer.runs import FolderLock
from numformer.terminal import did_you_mean, printable, shell_word

HEAD = ["preset", "figure", "each seed", "median", "must be", "baselines, the strongest first",
        "holds", "minutes"]


def add_arguments(parser):
    parser.add_argument("names", metavar="NAME", nargs="*", help="presets, A-from-B for A with "
                        "the backbone of a run of B (tinybert: with B as its teacher), where B may "
                        "be such a name, or experiments (default: all of "
                        f"{', '.join(_claims())})")
    parser.add_argument("--seeds", type=int, default=3, metavar="N",
                        help="train each with seeds 1 to N (default: 3)")
    parser.add_argument("--out", metavar="FOLDER", default="runs/reproduce", help="folder for runs "
                        "and table.md (default: runs/reproduce)")
    parser.add_argument("--data", default=None, help="a text instead of the default, for tasks "
                        "trained on a text")
    parser.add_argument("--steps", type=int, default=None, metavar="N",
                        help="number of steps instead of the preset's")
    parser.add_argument("--threads", type=int, default=None, metavar="N",
                        help="number of threads (default: all cores)")


def run(arguments):
    claims = _claims()
    names = arguments.names or list(claims)
    for name in names:
        if name not in claims:
            raise UsageError(f"reproduce: there are no claims about {name}"
                             f"{did_you_mean(name, claims)}; choose from {', '.join(claims)}.")
    if arguments.seeds < 1:
        raise UsageError(f"reproduce: --seeds {arguments.seeds} must be 1 or more.")
    names = list(dict.fromkeys(each for name in names for each in _with_starts(name)))
    out = Path(arguments.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(out)
        lock.acquire()
    except OSError as error:
        raise UsageError(f"--out {shell_word(out)} cannot be written to: {error.strerror}; choose "
                         "another.") from None
    with lock:
        return _reproduced(names, claims, out, arguments)


def _claims():
    """All claims, of presets and of experiments, by name."""
    return all_claims(PRESETS) | {name: experiment.claims
                                  for name, experiment in EXPERIMENTS.items()}


def _with_starts(name):
    """The runs that a name needs, each after the one that it starts from.

    Examples
    --------
    >>> _with_starts("tinybert-from-few-topics-from-bert")
    ['bert', 'few-topics-from-bert', 'tinybert-from-few-topics-from-bert']
    """
    _, start = preset_and_start(name)
    return [name] if start is None else [*_with_starts(start), name]


def _reproduced(names, claims, out, arguments):
    """Train what is missing, and write the table; return the exit status."""
    records = {}
    for seed in range(1, arguments.seeds + 1):      # all presets with seed 1, then with seed 2, ...
        for name in names:
            record = _record(name, seed, out, arguments)
            if record is None:
                return 1
            records.setdefault(name, []).append(record)
    rows = _rows(records, claims)
    table = "\n".join([_line(HEAD), _line(["---"] * len(HEAD)),
                       *(_line(_cells(row)) for row in rows)])
    settings = "\n".join(f"- `{name}`: {_settings(records[name][0]['settings'])}" for name in names)
    text = (f"{table}\n\nOptions that differ from the defaults; seeds 1 to {arguments.seeds}:"
            f"\n\n{settings}\n")
    write_atomically(out / "table.md", text.encode())
    print(table)
    print(f"\nwrote {printable(out / 'table.md')}")
    if arguments.json:
        print_json({"rows": rows, "table": str(out / "table.md")})
    return 1 if any(row["holds"] is False for row in rows) else 0


def _record(name, seed, out, arguments):
    """The record of a run, trained unless it exists; None if it was interrupted."""
    folder = out / f"{name}-{seed}"
    file, settings = folder / "reproduced.json", _chosen(name, arguments)
    if file.exists():
        record = _read_record(file)
        if record["settings"] != settings:
            raise UsageError(f"{folder} was trained with other options; choose another --out.")
        return record
    print(f"{name}, seed {seed}", file=sys.stderr)
    if name in EXPERIMENTS:
        return _experiment_record(name, seed, folder, arguments)
    is_new = not (folder / "checkpoint.safetensors").exists()
    preset, start = preset_and_start(name)
    argv = ["--preset", preset, "--out", str(folder), "--seed", str(seed),
            *([] if is_new else ["--resume"])]
    if start is not None and is_new:
        argv += ["--from", str(out / f"{start}-{seed}")]
    for flag in ("data", "steps", "threads"):
        if getattr(arguments, flag) is not None:
            argv += [f"--{flag}", str(getattr(arguments, flag))]
    started = time.perf_counter()
    if train.run_with(argv):                                          # stdout is kept for the table
        return None
    minutes = (time.perf_counter() - started) / 60 if is_new else None   # unknown for a resumed run
    record = {"settings": settings, "minutes": minutes, "figures": evaluated(folder)[0]}
    write_atomically(file, json.dumps(record, indent=2).encode())
    return record


def _experiment_record(name, seed, folder, arguments):
    """The record of an experiment; its picture lies next to it."""
    folder.mkdir(exist_ok=True)
    started = time.perf_counter()
    with backend.threads(arguments.threads):
        outcome = EXPERIMENTS[name].measure(seed, arguments.steps)
    save_picture(outcome.picture(), folder / f"{name}.png")
    record = {"settings": _chosen(name, arguments),
              "minutes": (time.perf_counter() - started) / 60, "figures": outcome.figures}
    write_atomically(folder / "reproduced.json", json.dumps(record, indent=2).encode())
    return record


def _read_record(file):
    try:
        record = parse_json(read_file(file, most=MIB))
        minutes, figures = record["minutes"], record["figures"]
        if not all(isinstance(number, int | float) for number in [minutes or 0, *figures.values()]):
            raise ValueError("a figure is no number")
        return {"settings": record["settings"], "minutes": minutes, "figures": figures}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} is no record of a run ({error}); remove it to evaluate the run "
                         "again.") from None


def _chosen(name, arguments):
    """All that a run depends on, except its seed."""
    steps = {} if arguments.steps is None else {"steps": arguments.steps}
    if name in EXPERIMENTS:
        return {"experiment": name, **steps}
    name, start = preset_and_start(name)
    preset = PRESETS[name]
    begin = {} if start is None else {"from": start}
    return {"kind": preset.kind, "task": preset.task.name, "data": arguments.data, **preset.model,
            **preset.recipe, **preset.training, **begin, **steps}


def _rows(records, claims):
    """A row for each figure that a preset or an experiment claims something about."""
    medians = {name: {figure: _median([record["figures"][figure] for record in found])
                      for figure in found[0]["figures"]} for name, found in records.items()}
    rows = []
    for name, found in records.items():
        minutes = [record["minutes"] for record in found if record["minutes"] is not None]
        for figure in dict.fromkeys(claim.figure for claim in claims[name]):
            its_claims = [claim for claim in claims[name] if claim.figure == figure]
            others = {other: figures[figure] for other, figures in medians.items()
                      if figure in figures}
            rows.append({"preset": name, "figure": figure,
                         "each": [record["figures"][figure] for record in found],
                         "median": medians[name][figure],
                         "must_be": ", ".join(filter("-".__ne__, map(str, its_claims))) or "-",
                         "baselines": _baselines(its_claims, medians[name], others),
                         "holds": _all([claim.holds(medians[name], others)
                                        for claim in its_claims]),
                         "minutes": max(minutes, default=None)})
    return rows


def _baselines(claims, medians, others):
    """The medians that claims about one figure compare it with, by name, the strongest first.

    Examples
    --------
    >>> from numformer.recipes.preset import more
    >>> claims = [more("probe", beats=name) for name in ("nearest", "probe_of_embedding")]
    >>> _baselines(claims, {"probe": 0.98, "nearest": 0.41, "probe_of_embedding": 0.82}, {})
    {'probe_of_embedding': 0.82, 'nearest': 0.41}
    """
    found = {claim.beats: medians[claim.beats] for claim in claims if claim.beats is not None}
    found |= {name: others[name] for claim in claims for name in claim.ahead_of if name in others}
    return dict(sorted(found.items(), key=lambda item: item[1], reverse=claims[0].more_is_better))


def _all(verdicts):
    """Whether all hold; None if none fails and one was not compared."""
    return False if False in verdicts else None if None in verdicts else True


def _median(figures):
    """The median of several seeds; NaN if one is NaN, which could be sorted anywhere."""
    return math.nan if any(map(math.isnan, figures)) else statistics.median(figures)


def _cells(row):
    return [row["preset"], row["figure"].replace("_", " "),
            ", ".join(f"{value:.4f}" for value in row["each"]), f"{row['median']:.4f}",
            row["must_be"], _named(row["baselines"]) or "-",
            {True: "yes", False: "**no**", None: "not compared"}[row["holds"]],
            "-" if row["minutes"] is None else f"{row['minutes']:.1f}"]


def _named(figures):
    return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in figures.items())


def _settings(settings):
    return ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)


def _line(cells):
    return f"| {' | '.join(cells)} |"
