"""Send SIGINT, SIGTERM and SIGHUP to trainings, N of each, at random moments.

    python tests/attacks/signals.py [N]    # 50; about five minutes

A training that is stopped saves, says how to resume and leaves status 1; before it has begun, the
signal ends it without a traceback. Nothing is lost: the checkpoint is at the last step of the
metrics, and the resumed run equals an undisturbed one, byte for byte. Every tenth process is fresh
and may be hit while it imports. One in five gets the signal twice; such a run may lose steps, but
nothing else. SIGHUP to a process that ignores it, as under nohup, has no effect.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

from attacked_runs import Workshop, main

from numformer.runs import RunFolder, load_checkpoint

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
# Python's own start cannot be helped: the signal is sent once our first line runs.
FRESH = ("import os, sys; os.write(1, b'up'); sys.argv[0] = 'numformer'; "
         "from numformer.__main__ import command; command()")


def once(shop, name, twice, rng):
    """One training and one signal, or two; returns whether it was stopped while it trained."""
    number, out = getattr(signal, name), shop.new_out()
    pid = shop.start(shop.argv(out))
    time.sleep(rng.uniform(0, shop.seconds))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        if twice:
            time.sleep(rng.uniform(0, 0.02))
            os.kill(pid, number)
    return check(shop, out, name, twice, shop.wait(pid))


def check(shop, out, name, twice, status):
    number, saved = getattr(signal, name), out / "checkpoint.safetensors"
    where = f"{name}{' twice' * twice}, status {status}"
    shop.check_said(where)
    shop.check_whole(out, where)
    if status not in (0, 1, 130, -number):
        shop.fault(f"{where}: another status was expected")
    if status == 1 and "numformer train --resume --out" not in shop.said():
        shop.fault(f"{where}: it does not say how to resume")
    # Before a training begins and after its end, while it draws, a signal ends the process.
    if not twice and saved.exists() and (
            load_checkpoint(saved)[1]["progress"]["step"] != steps_done(out)):
        shop.fault(f"{where}: steps were lost")
    shop.finish(out, where)
    return status == 1


def steps_done(out):
    return max((line["step"] for line in RunFolder(out).read_metrics()), default=0)


def while_importing(shop, name, rng):
    """A signal in the first 0.7 s of a fresh process."""
    out, log = shop.new_out(), open(shop.log, "wb")
    process = subprocess.Popen([sys.executable, "-c", FRESH, *shop.argv(out)],
                               stdout=subprocess.PIPE, stderr=log)
    process.stdout.read(2)
    time.sleep(rng.uniform(0, 0.7))
    process.send_signal(getattr(signal, name))
    process.stdout.close()                            # later, stdout is dead: it may not matter
    log.close()
    return check(shop, out, name, False, process.wait())


def ignored(shop, name):
    """A training that was started to ignore a signal goes on to its end."""
    number, out = getattr(signal, name), shop.new_out()
    pid = shop.start(shop.argv(out), lambda: signal.signal(number, signal.SIG_IGN))
    with contextlib.suppress(ProcessLookupError):
        for _ in range(5):
            time.sleep(shop.seconds / 5)
            if (out / "metrics.jsonl").exists():
                os.kill(pid, number)
    if shop.wait(pid) != 0 or "stopping" in shop.said():
        shop.fault(f"{name} is not ignored")
    shop.finish(out, f"{name} ignored")


def attack(count, folder):
    rng, stopped, faults, total = random.Random(count), 0, [], 0
    (folder / "forked").mkdir()
    shop = Workshop(folder / "forked", pictures=False)
    for name in SIGNALS:
        for k in range(count - count // 10):
            stopped += once(shop, name, k % 5 == 4, rng)
            total += 1
        ignored(shop, name)
    faults += shop.faults
    if count >= 10:
        (folder / "fresh").mkdir()
        shop = Workshop(folder / "fresh", fresh=True)
        for name in SIGNALS:
            for k in range(count // 10):
                total += 1
                stopped += (while_importing(shop, name, rng) if k % 2 == 0
                            else once(shop, name, False, rng))
        faults += shop.faults
    return f"{total}, {stopped} of them stopped a training that saved", faults


if __name__ == "__main__":
    sys.exit(main(attack, "signals", 50))
