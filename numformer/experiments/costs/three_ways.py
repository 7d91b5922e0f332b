"""Recurrence, convolution and attention: time, memory and path length by sequence length."""

import numpy as np

from numformer import backend
from numformer.experiments.costs.layer_costs import (
    FEW, FITTED, LENGTHS, WIDTH, WrittenOutAttention, fitted_slope, layer_costs)
from numformer.experiments.experiment import Experiment, Outcome
from numformer.functional import CAUSAL
from numformer.layers import RNN, CausalConvolution, MultiHeadAttention
from numformer.recipes.preset import Claim, more

TILE = 64                                             # queries and keys of a tile
KERNEL = 3                                            # positions that a convolution reads
NARROW = 4                                            # width of the layers whose paths are measured
TIME, MEMORY, PATH = "time of a step, ms", "peak memory of a step, MiB", "path length, steps"
NAMES = {"attention, written out": "written_out", "attention, in tiles": "tiles"}


def measure(seed, steps=None):
    """Costs of one layer of width 64 in NumPy, and paths from the first position to the last.

    It trains nothing; with `steps` it measures shorter sequences only, for a test.
    """
    rng, one = np.random.default_rng(seed), {"pattern": CAUSAL}
    lengths = LENGTHS if steps is None else FEW
    layers = {
        "RNN": (RNN(WIDTH, WIDTH, rng), {}),
        "CNN": (CausalConvolution(WIDTH, WIDTH, KERNEL, rng), {}),
        "attention, written out": (WrittenOutAttention(WIDTH, 1, rng), one),
        "attention, in tiles": (MultiHeadAttention(WIDTH, 1, rng, tile=TILE), one)}
    times, bytes_ = {}, {}
    for name, (layer, options) in layers.items():
        with backend.using("numpy"):
            costs = {N: layer_costs(layer, N, WIDTH, **options) for N in lengths}
        times[name] = {N: milliseconds for N, (milliseconds, _) in costs.items()}
        bytes_[name] = {N: peak / 2 ** 20 for N, (_, peak) in costs.items()}
    paths = {"RNN": {N: recurrent_path(N, rng) for N in lengths},
             "CNN": {N: path(convolutions(rng), N) for N in lengths},
             "CNN, dilated": {N: path(dilated_convolutions(rng), N) for N in lengths},
             "attention": {N: path(attentions(rng), N) for N in lengths}}
    quantities = {TIME: times, MEMORY: bytes_, PATH: paths}
    slopes = {quantity: {name: fitted_slope(values) for name, values in methods.items()}
              for quantity, methods in quantities.items()}
    figures = {}
    for quantity, word in ((TIME, "time"), (MEMORY, "memory"), (PATH, "path")):
        figures |= {f"{word}_slope_{_word(name)}": slope
                    for name, slope in slopes[quantity].items()}
    figures |= {f"longest_path_{_word(name)}": values[lengths[-1]]
                for name, values in paths.items()}
    return Outcome(figures, lambda: _picture(quantities, slopes), _table(quantities))


def path(layers, N):
    """How many layers it takes until the last of N outputs depends on the first input, by gradient.

    Layer by layer, from the top: which inputs have a nonzero gradient, if all outputs that were
    reached so far have one.
    """
    x = np.random.default_rng(0).standard_normal((1, N, NARROW), np.float32)
    reached, saved_of = np.arange(N) == N - 1, {}
    for n, (layer, options) in enumerate(layers, start=1):
        if id(layer) not in saved_of:
            saved_of = {id(layer): layer.forward(x, **options)[1]}
        dy = np.repeat(reached[None, :, None], NARROW, axis=2).astype(np.float32)
        reached = (layer.backward(dy, saved_of[id(layer)]) != 0).any(axis=(0, 2))
        if reached[0]:
            return n


def recurrent_path(N, rng):
    """The same for the time steps of an RNN: each gradient passes one step back."""
    layer, x = RNN(NARROW, NARROW, rng), rng.standard_normal((1, N, NARROW), np.float32)
    state, steps = np.zeros((1, NARROW), np.float32), 0
    for t in range(1, N):
        _, saved = layer.forward(x[:, t:t + 1], state)
        _, dstate = layer.backward(np.ones((1, 1, NARROW), np.float32), saved)
        steps += bool(dstate.any())
    return steps


def convolutions(rng):
    layer = CausalConvolution(NARROW, NARROW, KERNEL, rng)
    while True:
        yield layer, {}


def dilated_convolutions(rng):
    dilation = 1
    while True:
        yield CausalConvolution(NARROW, NARROW, KERNEL, rng, dilation), {}
        dilation *= 2


def attentions(rng):
    while True:
        yield MultiHeadAttention(NARROW, 1, rng), {"pattern": CAUSAL}


def _word(name):
    return NAMES.get(name, name.lower().replace(", ", "_"))


def _picture(quantities, slopes):
    from numformer.plots import power_law_panels

    return power_law_panels(quantities, slopes, FITTED,
                            title=f"One layer of width {WIDTH}, forward and backward")


def _table(quantities):
    rows = []
    for quantity, methods in quantities.items():
        rows.append(f"{quantity:28}" + "".join(f"{N:>9}" for N in methods["RNN"]))
        rows += [f"  {name:26}" + "".join(f"{value:9.4g}" for value in values.values())
                 for name, values in methods.items()]
    return "\n".join(rows)


EXPERIMENT = Experiment(
    "What do RNN, CNN and attention cost with length, and how far is the first token?", measure, (
        more("memory_slope_written_out", 1.8), Claim("memory_slope_tiles", 1.2),
        Claim("memory_slope_rnn", 1.2), Claim("memory_slope_cnn", 1.2),
        more("time_slope_written_out", beats="time_slope_rnn"),
        more("time_slope_tiles", beats="time_slope_cnn"),
        more("path_slope_rnn", 0.9), more("path_slope_cnn", 0.9),
        Claim("path_slope_cnn_dilated", 0.3), Claim("longest_path_attention", 1),
        Claim("longest_path_cnn_dilated", beats="longest_path_cnn"),
        Claim("longest_path_cnn", beats="longest_path_rnn")))
