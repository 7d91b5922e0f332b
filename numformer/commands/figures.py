"""numformer figures: all pictures of figures/, from runs of seconds and from the functions themselves."""

import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from numformer import plots
from numformer.benchmarks.attention import Case, measure
from numformer.benchmarks.training import growth, slope
from numformer.commands import UsageError, compare, train
from numformer.commands.pictures import PICTURES, Run
from numformer.commands.runs import load_run
from numformer.commands.show import print_json, save_picture
from numformer.functional import CAUSAL, alibi, alibi_slopes, sinusoidal_positions, tiled_attention_steps
from numformer.layers import FeedForward, LayerNorm, LearnedPositions, MultiHeadAttention, PreNormBlock
from numformer.models import TRANSFORMER_2017, Decoder, DecoderConfig, account, gradient_by_block
from numformer.tasks.digits import DigitTask
from numformer.verify import step_errors
from numformer.verify.audit import audit

TEXT = "the value of an expression is the"                            # a text that the small language model reads
COMPARED = ("rnn", "lstm", "gpt", "llama")
RUNS = {                                                              # name: the words after `numformer train`
    "tiny": ("--preset", "tiny"),
    "dates": ("--preset", "seq2seq", "--steps", 700),
    "digits": ("--preset", "vit", "--steps", 250),
    "t5": ("--preset", "t5", "--steps", 150),
    **{name: ("--preset", name, "--steps", 120, "--eval-every", 40) for name in COMPARED},
}
OF_RUNS = {                                                           # file: (run, kind of picture, what was chosen)
    "attention": ("tiny", "attention", {}), "heads_grid": ("tiny", "grid", {}), "heads": ("tiny", "heads", {}),
    "rollout": ("tiny", "rollout", {}), "query": ("tiny", "query", {"layer": 2}), "training": ("tiny", "training", {}),
    "residual": ("tiny", "residual", {}), "lens": ("tiny", "lens", {}), "contributions": ("tiny", "contributions", {}),
    "activations": ("tiny", "activations", {}), "alignment": ("dates", "alignment", {"text": "12th of september, 1942"}),
    "patches": ("digits", "patches", {"text": "4"}), "patch_positions": ("digits", "positions", {}), "t5_bias": ("t5", "positions", {}),
}


def add_arguments(parser):
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"which of them (default: all of {', '.join([*OF_RUNS, *DRAWN])})")
    parser.add_argument("--out", metavar="FOLDER", default="figures", help="where to (default: figures)")
    parser.add_argument("--runs", metavar="FOLDER", default=None, help="for the runs, which are kept there, and not trained again "
                        "(default: a folder that is removed)")


def run(arguments):
    names = arguments.names or [*OF_RUNS, *DRAWN]
    for name in names:
        if name not in OF_RUNS and name not in DRAWN:
            raise UsageError(f"figures: there is no {name}; choose from {', '.join([*OF_RUNS, *DRAWN])}.")
    if any(OF_RUNS.get(name, ("",))[0] == "digits" for name in names):
        DigitTask().load(None)                                        # says at once that scikit-learn is missing, if it is
    out, files, started = Path(arguments.out), [], time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        runs = Path(arguments.runs or temporary)
        for name in names:
            if name in OF_RUNS:
                its_run, kind, chosen = OF_RUNS[name]
                files.append(_saved(PICTURES[kind](_opened(runs, its_run, chosen)), out / f"{name}.png"))
            else:
                files.append(_saved(DRAWN[name](runs), out / (f"{name}.gif" if name == "tiles" else f"{name}.png")))
            print(f"{time.perf_counter() - started:5.0f} s  {files[-1]}", file=sys.stderr)
    print(f"{len(files)} pictures in {out}")
    if arguments.json:
        print_json({"files": files})
    return 0


def _saved(picture, path):
    if path.suffix == ".gif":
        picture.save(path, writer="pillow", dpi=70)
    else:
        save_picture(picture, path)
    return str(path)


def _trained(runs, name):
    """The folder of a small run, trained now unless it was before."""
    folder = runs / name
    if not (folder / "checkpoint.safetensors").exists() and train.run_with([*RUNS[name], "--out", folder]):
        raise KeyboardInterrupt
    return folder


def _opened(runs, name, chosen):
    nothing = dict.fromkeys(("text", "view", "layer", "head", "query", "token", "data"))
    text = {"text": TEXT} if name == "tiny" else {}
    folder = _trained(runs, name)
    return Run(str(folder), *load_run(folder), SimpleNamespace(**{**nothing, **text, **chosen}))


def _comparison(runs):
    picture = compare.drawn([run.measured() for run in compare.side_by_side([_trained(runs, name) for name in COMPARED])])
    picture.suptitle("The first 120 steps; by step 900 attention is ahead (numformer/tasks/comparison.png)", fontsize=11)
    return picture


def _similarity(runs):
    rng = np.random.default_rng(0)
    learned = LearnedPositions(64, 64, rng, dtype=np.float64).weight.data
    return plots.similarity_by_distance({"sinusoids": sinusoidal_positions(np.arange(64), 64), "learned, before training": learned})


def _proof(runs):
    q, k = np.random.default_rng(0).standard_normal((2, 32))
    return plots.rotary_proof(q, k)


def _norms(runs):
    """Gradients of blocks before the first step, pre-norm beside post-norm, 24 blocks deep: a mean of three draws."""
    flows, L = {}, 24
    for name, norm_first in (("norm before each branch", True), ("norm after each sum", False)):
        choices = {**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 64 ** -0.5}
        config = DecoderConfig(**choices, vocab_size=65, context_length=64, n_layers=L, n_heads=4, d_model=64)
        draws = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            model, ids = Decoder(config, rng), rng.integers(0, 65, (4, 65))
            for block in model.blocks:                                # a branch half as strong as the stream, whatever the depth
                block.attention.output.weight.data *= np.float32((2 * L) ** 0.5 / 2)
                block.feedforward.output.weight.data *= np.float32((2 * L) ** 0.5 / 4)         # its input is four times as wide
            draws.append(gradient_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"])
        flows[name] = np.mean(draws, axis=0)
    return plots.gradient_flow(flows, title="Gradient of each block, before the first step (mean of three draws)")


def _oracle(runs):
    rng, double = np.random.default_rng(0), dict(dtype=np.float64)
    block = PreNormBlock(LayerNorm(4, **double), MultiHeadAttention(4, 2, rng, **double), LayerNorm(4, **double),
                         FeedForward(4, 8, "gelu", rng, **double))
    return plots.step_error_curve(step_errors(block, [rng.standard_normal((1, 3, 4))]), title="A Transformer block's derivatives")


@cache
def _steps():
    """Eight queries and keys of width 2, in tiles of 2 x 2, causal."""
    q, k, v = np.random.default_rng(3).standard_normal((3, 1, 1, 8, 2))
    return list(tiled_attention_steps(2 * q, k, v, CAUSAL, tile=2))


def _costs(runs):
    lengths = (128, 256, 512, 1024, 2048)
    rows = [measure(Case.parse(f"1x4x{T}x64:causal"), seconds=2.0) for T in lengths]
    times = {name: [row[f"{prefix}forward_ms"] and row[f"{prefix}forward_ms"] + row[f"{prefix}backward_ms"] for row in rows]
             for name, prefix in (("all T x S weights, NumPy", "numpy_"), ("tiles, compiled", ""))}
    memory = {name: [row[f"{prefix}extra_bytes"] for row in rows]
              for name, prefix in (("all T x S weights, NumPy", "numpy_"), ("tiles, compiled", ""))}
    return plots.attention_costs(lengths, times, memory, title="Attention by length: 4 causal heads of width 64")


def _growth(runs):
    grown = growth(seconds=1.0)
    return plots.growth_of_time(grown, {size: slope(times) for size, times in grown.items()})


def _account(runs):
    return plots.account_bars(account(DecoderConfig(vocab_size=65, context_length=64, n_layers=4, n_heads=4, d_model=128, bias=False,
                                                    norm="rms_norm", feedforward="swiglu", positions="rotary")))


DRAWN = {                                                             # file: a function of the folder with the runs
    "comparison": _comparison,
    "sinusoids": lambda runs: plots.position_vectors(sinusoidal_positions(np.arange(64), 64), title="Sinusoidal positions"),
    "similarity": _similarity,
    "alibi": lambda runs: plots.position_biases(alibi(np.zeros((4, 32, 32)), alibi_slopes(4))[0], title="ALiBi, four heads"),
    "rotary": lambda runs: plots.rotary_clocks(64),
    "rotary_proof": _proof,
    "norms": _norms,
    "oracle": _oracle,
    "audit": lambda runs: plots.audit_errors(audit()),
    "tile_order": lambda runs: plots.tile_order(_steps()),
    "tile_frames": lambda runs: plots.tile_frames(_steps(), (0, 1, 5)),
    "tiles": lambda runs: plots.tile_animation(_steps()),
    "attention_costs": _costs,
    "growth": _growth,
    "account": _account,
}
