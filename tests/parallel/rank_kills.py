"""Kill random ranks of a training at random moments, N times; nothing is lost, and nobody hangs.

    python tests/parallel/rank_kills.py [N]    # 30; about five minutes; needs Linux, MPI and mpi4py

After every kill all ranks must have ended within ten seconds and the checkpoint must be whole. The
run goes on with another number of ranks. In the end its files equal those of an undisturbed run
without MPI, byte for byte.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from command import SMALL, TEXT, content                              # noqa: E402
from numformer.runs import load_checkpoint                            # noqa: E402
from ranks import ranks_of, started                                   # noqa: E402

WITHIN = 10                                           # seconds
TRAIN = [sys.executable, "-m", "numformer", "train"]
SETTINGS = ["--eval-every", "300", "--save-every", "40", "--shards", "4", *SMALL]


def attack(kills, folder, seed=0):
    """Return (kills done, the longest time until all had ended, the number of resumed runs)."""
    rng, folder = random.Random(seed), Path(folder)
    text, out, alone = folder / "text.txt", folder / "ranks" / "run", folder / "alone" / "run"
    text.write_text(TEXT)
    steps = ["--steps", str(900 * kills)]
    new = [*TRAIN, "--data", str(text), *steps, *SETTINGS, "--out"]
    subprocess.run([*new, str(alone)], check=True, capture_output=True)
    done, longest, begun = 0, 0.0, 0
    while True:
        begin = ([*TRAIN, "--resume", "--out"] if (out / "checkpoint.safetensors").exists()
                 else new)
        process = started(rng.randint(2, 4), folder / "log", *begin, out)
        begun += 1
        if done < kills:
            time.sleep(rng.uniform(1.5, 6.0))
        else:
            process.wait()
        ranks = ranks_of(out)
        if process.poll() is not None or not ranks:
            break
        os.kill(ranks[rng.choice(list(ranks))], signal.SIGKILL)
        killed = time.monotonic()
        process.wait(timeout=WITHIN)
        while ranks_of(out):
            assert time.monotonic() - killed < WITHIN, f"ranks hang: {ranks_of(out)}"
            time.sleep(0.05)
        longest, done = max(longest, time.monotonic() - killed), done + 1
        if (out / "checkpoint.safetensors").exists():
            load_checkpoint(out / "checkpoint.safetensors")           # it must be whole
    assert process.returncode == 0, (folder / "log").read_text()
    assert done == kills, f"the training ended after {done} kills; give it more steps"
    assert content(out) == content(alone), "the files differ from those of an undisturbed run"
    return done, longest, begun


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as path:
        done, longest, begun = attack(int(sys.argv[1]) if len(sys.argv) > 1 else 30, path)
    print(f"{done} kills, {begun} starts: all files equal those of an undisturbed run; all ranks "
          f"had ended after at most {longest:.1f} s")
