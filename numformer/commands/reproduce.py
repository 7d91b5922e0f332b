"""numformer reproduce: train presets for several seeds, and see whether they reach what is said of them."""

import json
import statistics
import sys
import time
from pathlib import Path

from numformer.commands import UsageError, train
from numformer.commands.eval import evaluated
from numformer.commands.show import print_json
from numformer.tasks import CLAIMS, PRESETS, parts_of
from numformer.training import write_atomically

HEAD = ["preset", "figure", "each seed", "median", "must be", "holds", "minutes"]


def add_arguments(parser):
    parser.add_argument("names", metavar="NAME", nargs="*", help="presets, or A-from-B for those that begin with the run of another "
                        f"(default: all of {', '.join(CLAIMS)})")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="train each with the seeds 1 .. N (default: 3)")
    parser.add_argument("--out", metavar="FOLDER", default="runs/reproduce", help="for runs and table.md (default: runs/reproduce)")
    parser.add_argument("--data", default=None, help="a text instead of the default, for tasks that learn from one")
    parser.add_argument("--steps", type=int, default=None, metavar="N", help="fewer steps than the preset's, to try it out")
    parser.add_argument("--threads", type=int, default=None, metavar="N", help="threads (default: as many as cores)")


def run(arguments):
    names = arguments.names or list(CLAIMS)
    for name in names:
        if name not in CLAIMS:
            raise UsageError(f"reproduce: nothing is said of {name}; choose from {', '.join(CLAIMS)}.")
    if arguments.seeds < 1:
        raise UsageError(f"reproduce: --seeds {arguments.seeds} must be 1 or more.")
    names = list(dict.fromkeys(each for name in names for each in (parts_of(name)[1], name) if each))     # what it begins with, first
    out = Path(arguments.out)
    records = {}
    for seed in range(1, arguments.seeds + 1):                        # a first seed of all, before a second of any
        for name in names:
            record = _record(name, seed, out, arguments)
            if record is None:
                return 1
            records.setdefault(name, []).append(record)
    rows = _rows(records)
    table = "\n".join([_line(HEAD), _line(["---"] * len(HEAD)), *(_line(_cells(row)) for row in rows)])
    settings = "\n".join(f"- `{name}`: {_settings(records[name][0]['settings'])}" for name in names)
    text = f"{table}\n\nSettings, where they are not the defaults; seeds 1 to {arguments.seeds}:\n\n{settings}\n"
    write_atomically(out / "table.md", text.encode())
    print(table)
    print(f"\nwritten: {out / 'table.md'}")
    if arguments.json:
        print_json({"rows": rows, "table": str(out / "table.md")})
    return 1 if any(row["holds"] is False for row in rows) else 0


def _record(name, seed, out, arguments):
    """What a run of that preset and seed gave, trained now unless it was before; None where somebody stopped it."""
    folder = out / f"{name}-{seed}"
    file, settings = folder / "reproduced.json", _chosen(name, arguments)
    if file.exists():
        record = json.loads(file.read_text())
        if record["settings"] != settings:
            raise UsageError(f"{folder} was trained with other settings; choose another --out.")
        return record
    whole = not (folder / "checkpoint.safetensors").exists()
    preset, start = parts_of(name)
    argv = ["--preset", preset, "--out", str(folder), "--seed", str(seed), *([] if whole else ["--resume"])]
    if start is not None and whole:
        argv += ["--from", str(out / f"{start}-{seed}")]
    for flag in ("data", "steps", "threads"):
        if getattr(arguments, flag) is not None:
            argv += [f"--{flag}", str(getattr(arguments, flag))]
    print(f"{name}, seed {seed}", file=sys.stderr)
    started = time.perf_counter()
    if train.run_with(argv):                                          # stdout is for the table
        return None
    minutes = (time.perf_counter() - started) / 60 if whole else None     # of one that was stopped between, nobody knows
    record = {"settings": settings, "minutes": minutes, "figures": evaluated(folder)[0]}
    write_atomically(file, json.dumps(record, indent=2).encode())
    return record


def _chosen(name, arguments):
    """What a run depends on, beside its seed."""
    name, start = parts_of(name)
    preset = PRESETS[name]
    begin = {} if start is None else {"from": start}
    steps = {} if arguments.steps is None else {"steps": arguments.steps}
    return {"kind": preset.kind, "task": preset.task, "data": arguments.data, **preset.model, **preset.training, **begin, **steps}


def _rows(records):
    """One for each claim of each preset."""
    medians = {name: {figure: statistics.median(record["figures"][figure] for record in found) for figure in found[0]["figures"]}
               for name, found in records.items()}
    rows = []
    for name, found in records.items():
        minutes = [record["minutes"] for record in found if record["minutes"] is not None]
        for claim in CLAIMS[name]:
            others = {other: figures[claim.figure] for other, figures in medians.items() if claim.figure in figures}
            rows.append({
                "preset": name, "figure": claim.figure, "each": [record["figures"][claim.figure] for record in found],
                "median": medians[name][claim.figure], "must_be": str(claim), "holds": claim.holds(medians[name], others),
                "minutes": max(minutes, default=None)})
    return rows


def _cells(row):
    return [row["preset"], row["figure"].replace("_", " "), ", ".join(f"{value:.4f}" for value in row["each"]), f"{row['median']:.4f}",
            row["must_be"], {True: "yes", False: "**no**", None: "not compared"}[row["holds"]],
            "-" if row["minutes"] is None else f"{row['minutes']:.1f}"]


def _settings(settings):
    return ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)


def _line(cells):
    return f"| {' | '.join(cells)} |"
