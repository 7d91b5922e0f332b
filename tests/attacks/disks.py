"""Train on disks of N sizes, and with N limits on the size of a file, all of them too small.

    python tests/attacks/disks.py [N]    # 16; about a minute

A training that cannot write ends with one line and status 1. Checkpoints stay whole, and with more
space the run resumes and equals an undisturbed one, byte for byte. The disks are simulated (they
take a part of what does not fit, as real ones do) and, where this user may mount them, also real.
"""

import os
import random
import shutil
import subprocess
import sys

from attacked_runs import CHECKPOINTS, Workshop, content, main
from file_operations import Watch


def used(folder):
    """Bytes of all files in a folder; it may not exist yet."""
    return sum(entry.stat().st_size for entry in os.scandir(folder)) if folder.exists() else 0


def simulated(out, size):
    return lambda: Watch(disk=lambda: size - used(out))


def limited(out, size):
    import resource                                   # Windows has none

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def check(shop, out, status, where, message):
    """What must hold of a training that ran out of space; then finish it."""
    said = [line for line in shop.said().splitlines() if line.startswith("numformer:")]
    shop.check_whole(out, where)
    shop.check_said(where)
    if status == 0:
        shop.fault(f"{where}: it should not fit")
    elif (status, len(said)) != (1, 1) and (status, len(said)) != (2, 1):
        shop.fault(f"{where}: status {status} and {len(said)} lines")
    elif message not in said[0]:
        shop.fault(f"{where}: another cause")
    elif (out / CHECKPOINTS[0]).exists() and "then resume with: numformer train" not in said[0]:
        shop.fault(f"{where}: it does not say how to resume")
    if any(path.name.endswith(".tmp") for path in out.glob(".*")):
        shop.fault(f"{where}: a temporary file is left")
    shop.finish(out, where)


def sizes_below(need, count, rng, least=0):
    """So many sizes, from the least to almost enough."""
    return [least, need - 1, *(rng.randrange(least, need - 1) for _ in range(count - 2))][:count]


def on_real_disks(shop, need, count, rng):
    """Mount tmpfs of few pages; return how many, 0 where that is not allowed."""
    done = 0
    for size in sizes_below(need, count, rng):
        disk = shop.new_out()
        disk.mkdir()
        pages = max(2, size // os.sysconf("SC_PAGE_SIZE"))
        if shutil.which("mount") is None or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"nr_blocks={pages}", "tmpfs", str(disk)],
                capture_output=True).returncode:
            break
        try:
            status = shop.wait(shop.start(shop.argv(disk / "run")))
            said, out = shop.said(), shop.new_out()
            if (disk / "run").exists():
                shutil.copytree(disk / "run", out)                    # onto a larger disk
            shop.log.write_text(said)
        finally:
            subprocess.run(["umount", str(disk)], check=True, capture_output=True)
        if status:
            check(shop, out, status, f"real disk of {pages} pages", "No space left on device")
        done += 1
    return done


def attack(count, folder):
    rng, shop = random.Random(count), Workshop(folder, pictures=False)
    files = content(shop.reference)
    # Two checkpoints, and room to write one of them anew
    need = sum(map(len, files.values())) + len(files[CHECKPOINTS[0]])
    largest = len(files[CHECKPOINTS[0]]) - 200                        # it grows a little
    for kind, prepare, least, most, message in (
            ("disk", simulated, 0, need - 2000, "No space left on device; "),
            ("limit", limited, 2000, largest, "File too large; ")):  # the log fits
        for size in sizes_below(most, count, rng, least):
            out = shop.new_out()
            status = shop.wait(shop.start(shop.argv(out), prepare(out, size)))
            check(shop, out, status, f"{kind} of {size} bytes", message)
    real = on_real_disks(shop, need, count, rng)
    return f"{count} simulated, {count} limits, {real} real ones", shop.faults


if __name__ == "__main__":
    sys.exit(main(attack, "disks", 16))
