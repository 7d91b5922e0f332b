"""Two and eight trainers at once, in one folder, in a run to resume, and without --out; N rounds.

    python tests/attacks/together.py [N]    # 10; about two minutes

In one folder one trains and the others leave with status 2 and a line that names its process;
without --out each gets a folder of its own. Every run equals one that was trained alone, byte for
byte. Readers (`eval`) are not disturbed by a writer, nor it by them.
"""

import re
import sys

from attacked_runs import CHECKPOINTS, Workshop, content, main


def race(shop, count, argv, cwd=None):
    """Start `count` trainers at once; return the statuses and what each has said."""
    logs = [shop.folder / f"log{k}" for k in range(count)]
    pids = [shop.start(argv, log=log, cwd=cwd) for log in logs]
    statuses = [shop.wait(pid) for pid in pids]
    said = [log.read_text() for log in logs]
    for text in said:
        if "Traceback" in text:
            shop.fault(f"a traceback: {text[-600:]}")
    return pids, statuses, said


def in_one_folder(shop, count, out):
    """Return how many were refused because of another trainer."""
    pids, statuses, said = race(shop, count, shop.argv(out))
    refused = 0
    for status, text in zip(statuses, said):
        if status == 2:
            holder = re.search(r"is in use by process (\d+)", text)
            refused += bool(holder)
            if len(text.splitlines()) != 1 or not (holder and int(holder[1]) in pids
                                                   or "contains a run already" in text):
                shop.fault(f"a refusal without the cause: {text!r}")
    if 0 not in statuses or not {0, 2} >= set(statuses):
        shop.fault(f"{count} at once: statuses {statuses}")
    shop.finish(out, f"{count} at once")
    return refused


def without_out(shop, count):
    """Every trainer gets a folder of its own."""
    cwd = shop.new_out()
    cwd.mkdir()
    argv = shop.argv("none")[:-2]
    _, statuses, said = race(shop, count, argv, cwd=cwd)
    runs = sorted(path.name for path in (cwd / "runs").iterdir())
    if statuses != [0] * count or len(runs) != count:
        shop.fault(f"{count} without --out: statuses {statuses}, runs {runs}: {said}")
    for run in runs:
        if content(cwd / "runs" / run) != content(shop.reference):
            shop.fault(f"{count} without --out: {run} differs")


def with_readers(shop):
    """Evaluate a run again and again while it is trained; return how often."""
    out, read = shop.new_out(), 0
    trainer = shop.start(shop.argv(out), log=shop.folder / "trainer")
    done = False
    while not done:
        done = (out / CHECKPOINTS[0]).exists() and "finished" in (
            shop.folder / "trainer").read_text()
        if (out / CHECKPOINTS[0]).exists():
            status = shop.wait(shop.start(["eval", str(out)]))
            read += 1
            shop.check_said("a reader")
            if status:
                shop.fault(f"a reader: status {status}")
    if shop.wait(trainer):
        shop.fault("a trainer with readers failed")
    shop.finish(out, "with readers")
    return read


def attack(rounds, folder):
    shop, refused, read = Workshop(folder, pictures=False), 0, 0
    for _ in range(rounds):
        for count in (2, 8):
            refused += in_one_folder(shop, count, shop.new_out())
            out = shop.new_out()
            shop.wait(shop.start([*shop.argv(out), "--stop-at", "5"]))
            refused += in_one_folder(shop, count, out)                # all of them resume
            without_out(shop, count)
        read += with_readers(shop)
    return (f"{rounds} rounds of 2 and of 8, {refused} trainers refused, {read} readers",
            shop.faults)


if __name__ == "__main__":
    sys.exit(main(attack, "together", 10))
