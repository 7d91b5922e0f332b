"""Kill a training N times: at random moments, and before, inside and after each file operation.

    python tests/attacks/kills.py [N]    # 500; about ten minutes

After every kill the checkpoints must be whole. Every run that was killed is resumed, and once it
has finished its files equal those of an undisturbed run, byte for byte. A tenth of the kills hits
fresh processes with compiled kernels, the others forked ones.
"""

import os
import random
import signal
import sys
import time

from attacked_runs import Workshop, main
from file_operations import Watch, die


def killed_at(number, moment):
    """Die at a moment of the file operation of that number."""
    return lambda: Watch(lambda count, name, when, path: (
        die() if (count, when) == (number, moment) else None))


def at_each_operation(shop, kills):
    """Kill fresh runs at each operation, or spread over all of them if `kills` are fewer."""
    done, targets = 0, moments(shop)
    stride = max(1, len(targets) // kills)
    for number, moment in targets[stride // 2::stride]:
        out, where = shop.new_out(), f"{moment} operation {number}"
        if shop.wait(shop.start(shop.argv(out), killed_at(number, moment))) == -signal.SIGKILL:
            done += 1
        shop.check_whole(out, where)
        shop.finish(out, where)
        if done == kills:
            break
    return done


def moments(shop):
    """(number, "before", "inside" or "after") of all file operations of a training."""
    out = shop.new_out()

    def tell(*event):
        os.write(2, f"operation {event[0]} {event[2]}\n".encode())    # into the log of the child

    shop.wait(shop.start(shop.argv(out), lambda: Watch(tell)))
    lines = [line.split() for line in shop.said().splitlines() if line.startswith("operation ")]
    return [(int(number), moment) for _, number, moment in lines]


def at_random_moments(shop, kills, rng):
    """Kill runs after random times, again and again, until they finish."""
    done, out = 0, shop.new_out()
    while done < kills:
        pid = shop.start(shop.argv(out))
        time.sleep(rng.uniform(0, 1.1 * shop.seconds))
        os.kill(pid, signal.SIGKILL)
        status = shop.wait(pid)
        done += status == -signal.SIGKILL
        shop.check_whole(out, f"random kill {done}")
        if status != -signal.SIGKILL or rng.random() < 0.1 or done == kills:
            shop.finish(out, f"after random kill {done}")
            out = shop.new_out()
    return done


def attack(kills, folder):
    rng, made, faults = random.Random(kills), {}, []
    pictures, fresh = (kills // 20, kills // 10) if kills >= 50 else (0, 0)
    at_random = round(0.3 * kills)
    for name, wanted, options in (
            ("operations", kills - at_random - pictures - fresh, dict(pictures=False)),
            ("random", at_random, dict(pictures=False)), ("pictures", pictures, dict()),
            ("fresh", fresh, dict(fresh=True))):
        if name == "random":                          # a training has about 230 moments
            wanted = kills - pictures - fresh - made["operations"]
        if wanted:
            (folder / name).mkdir()
            shop = Workshop(folder / name, **options)
            made[name] = (at_each_operation(shop, wanted) if name == "operations"
                          else at_random_moments(shop, wanted, rng))
            faults += shop.faults
            if kills >= 50:
                print(f"{made[name]} {name}, {len(shop.faults)} faults", flush=True)
    figures = ", ".join(f"{count} {name}" for name, count in made.items())
    return f"{sum(made.values())} ({figures})", faults


if __name__ == "__main__":
    sys.exit(main(attack, "kills", 500))
