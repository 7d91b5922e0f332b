"""Through how many files one training step goes: what somebody turns over who follows it.

    python tests/house/step_trace.py

One step of a GPT with one layer on the NumPy reference, on one thread, with one shard. Counted are
the files of the package whose functions are called, the calls of functions, and the switches: calls
from a function of one file to a function of another, whatever of NumPy or Python lies between.

At 05d58e4, before this was counted: 805 calls, 505 switches, 51 files in 16 folders.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

import numformer
from numformer import backend
from numformer.data import BlockStream
from numformer.models import Decoder, DecoderConfig
from numformer.training import Trainer, TrainingConfig

ROOT = str(Path(numformer.__file__).parent)


class Trace(NamedTuple):
    """Calls into each file, and from one file to another."""

    files: Counter
    switches: Counter

    def __str__(self):
        folders = {str(Path(name).parent) for name in self.files}
        return (f"{sum(self.files.values())} calls, {sum(self.switches.values())} switches, "
                f"{len(self.files)} files in {len(folders)} folders")


def small_trainer():
    """The trainer of a GPT with one layer."""
    config = DecoderConfig(vocab_size=11, context_length=16, n_layers=1, n_heads=2, d_model=16)
    stream = BlockStream(np.arange(1000) % 11, context_length=16, batch_size=4, seed=0)
    return Trainer(Decoder(config, np.random.default_rng(0)), stream, [],
                   TrainingConfig(steps=10, warmup_steps=0, shards=1))


def trace_of(function):
    """The `Trace` of a call of `function`, in this thread."""
    files, switches = Counter(), Counter()

    def name_of(frame):
        return frame.f_code.co_filename

    def profile(frame, event, argument):
        if event != "call" or not name_of(frame).startswith(ROOT):
            return
        files[name_of(frame)[len(ROOT) + 1:]] += 1
        caller = frame.f_back
        while caller is not None and not name_of(caller).startswith(ROOT):
            caller = caller.f_back
        if caller is not None and name_of(caller) != name_of(frame):
            switches[name_of(caller)[len(ROOT) + 1:], name_of(frame)[len(ROOT) + 1:]] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return Trace(files, switches)


def step_trace():
    """The `Trace` of the third step; the first two make what is made once."""
    trainer = small_trainer()
    with backend.using("numpy"), backend.threads(1):
        for _ in range(2):
            trainer.train_step()
        return trace_of(trainer.train_step)


if __name__ == "__main__":
    found = step_trace()
    for (caller, callee), n in found.switches.most_common():
        print(f"{n:4}  {caller} -> {callee}")
    print(found)
