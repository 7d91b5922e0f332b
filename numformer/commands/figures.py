"""numformer figures: draw all pictures in figures/ again, from small runs.

    numformer figures alibi --out figures
"""

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
from numformer.commands.shared.deck_pictures import DECK
from numformer.commands.shared.process import ending_at_once
from numformer.commands.shared.selection import Run
from numformer.commands.shared.output import add_style_arguments, print_json, save_picture, style_of
from numformer.commands.views.film import film_of
from numformer.commands.views.movies import FPS, HOLD, save_gif
from numformer.commands.views.states import States
from numformer.experiments import EXPERIMENTS
from numformer.files import folders_above, whole_folders, write_atomically
from numformer.functional import (
    CAUSAL, alibi, alibi_slopes, sinusoidal_positions, softmax, tiled_attention_steps)
from numformer.layers import (
    FeedForward, LayerNorm, LearnedPositions, MultiHeadAttention, ResidualBranch,
    SelfAttentionBranch, TransformerBlock)
from numformer.analysis import (
    attention_distance, attention_gradients, attention_traffic, gradient_norm_by_block, lstm_gates,
    memory_levels, model_costs)
from numformer.models import TRANSFORMER_2017, Decoder, DecoderConfig
from numformer.plots.training.film import Film
from numformer.runs import load_run, read_metrics
from numformer.verify import step_errors
from numformer.terminal import did_you_mean, printable
from numformer.verify.audit import audit

TEXT = "the value of an expression is the"                       # input of the small language model
GATES_TEXT = "the value of an object.\n  See the"
FILM_TEXT = "the value of the"
SHORT_TEXT = "the value of the"
BERT_TEXT = "max put a big doll in the bucket and went out ."
HERO_TEXT = "the value of an expression"
COMPARED = ("rnn", "lstm", "gpt", "llama")
# name: arguments of `numformer train`
RUNS = {
    "tiny": ("--preset", "tiny"),
    "filmed": ("--preset", "tiny", "--snapshots", 40, "--eval-every", 40),
    "dates": ("--preset", "seq2seq", "--steps", 700),
    "digits": ("--preset", "vit", "--steps", 250),
    "t5": ("--preset", "t5", "--steps", 150),
    "recall": ("--preset", "recall", "--steps", 4500),
    "world_bert": ("--preset", "world-bert"),
    "small_lstm": ("--preset", "lstm", "--n-layers", 1, "--d-model", 64, "--steps", 300),
    **{name: ("--preset", name) for name in COMPARED},
}
# file: (run, kind of picture, options)
OF_RUNS = {
    "attention": ("tiny", "attention", {"text": SHORT_TEXT}), "heads_grid": ("tiny", "grid", {}),
    "heads": ("tiny", "heads", {}),
    "rollout": ("tiny", "rollout", {}), "query": ("tiny", "query", {"layer": 2}),
    "training": ("tiny", "training", {}),
    "residual": ("tiny", "residual", {}), "lens": ("tiny", "lens", {}),
    "contributions": ("tiny", "contributions", {}),
    "activations": ("tiny", "activations", {}),
    "alignment": ("dates", "alignment", {"text": "12th of september, 1942"}),
    "patches": ("digits", "patches", {"text": "4"}), "patch_positions": ("digits", "positions", {}),
    "t5_bias": ("t5", "positions", {}), "learned_positions": ("gpt", "positions", {}),
    "embeddings": ("tiny", "embeddings", {}), "token_loss": ("tiny", "token-loss", {"text": None}),
    "temperature": ("tiny", "temperature", {"text": "the value of "}),
    "induction": ("recall", "induction", {}),
    "head_patterns": ("world_bert", "patterns", {"text": BERT_TEXT}),
    "landscape": ("filmed", "landscape", {}),
}


def add_arguments(parser):
    parser.add_argument("names", metavar="NAME", nargs="*", help="pictures to draw (default: all "
                        f"of {', '.join([*OF_RUNS, *DRAWN])})")
    parser.add_argument("--out", metavar="FOLDER", default="figures",
                        help="folder of the pictures (default: figures)")
    parser.add_argument("--runs", metavar="FOLDER", default=None, help="folder of the runs, "
                        "which are kept and not trained again (default: a temporary folder)")
    add_style_arguments(parser)


def run(arguments):
    names = arguments.names or [*OF_RUNS, *DRAWN]
    known = [*OF_RUNS, *DRAWN]
    for name in names:
        if name not in known:
            raise UsageError(f"figures: there is no {name}{did_you_mean(name, known)}; choose from "
                             f"{', '.join(known)}.")
    out, files, started = Path(arguments.out), [], time.perf_counter()
    with (folders_above(out / "picture"), tempfile.TemporaryDirectory() as temporary,
          style_of(arguments)):
        runs = Path(arguments.runs or temporary)
        for name in names:
            if name in OF_RUNS:
                its_run, kind, chosen = OF_RUNS[name]
                files.append(_saved(plots.PICTURES[kind].draw(_opened(runs, its_run, chosen)),
                                    out / f"{name}.png"))
            else:
                files.append(_saved(DRAWN[name](runs),
                                    out / f"{name}.{'gif' if name in ANIMATED else 'png'}"))
            print(f"{time.perf_counter() - started:5.0f} s  {files[-1]}", file=sys.stderr)
    print(f"{len(files)} pictures in {printable(out)}")
    if arguments.json:
        print_json({"files": files})
    return 0


def _saved(picture, path):
    if isinstance(picture, Film):
        save_gif(picture, path, FPS, HOLD)
    elif path.suffix == ".gif":
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / "picture.gif"
            picture.save(whole, writer="pillow", dpi=104)             # 8 inches: 832 pixels
            write_atomically(path, whole.read_bytes())
    else:
        save_picture(picture, path)
    return str(path)


def _trained(runs, name):
    """The folder of a small run, trained unless it exists; one that is stopped leaves nothing."""
    folder = runs / name
    if (folder / "checkpoint.safetensors").exists():
        return folder
    try:
        with whole_folders(folder) as (unfinished,), ending_at_once():
            if train.run_with([*RUNS[name], "--out", unfinished]):
                raise KeyboardInterrupt
    except KeyboardInterrupt:                         # without the words of a run that is kept
        raise KeyboardInterrupt from None
    except OSError as error:                          # likewise
        cause = error.__context__ if isinstance(error.__context__, OSError) else error
        raise OSError(cause.errno, cause.strerror or str(cause), str(folder)) from None
    return folder


def _opened(runs, name, chosen):
    nothing = dict.fromkeys(("text", "view", "layer", "head", "query", "token", "data"))
    text = {"text": TEXT} if name == "tiny" else {}
    folder = _trained(runs, name)
    return Run(str(folder), *load_run(folder), SimpleNamespace(**{**nothing, **text, **chosen}))


def _hero(runs):
    """Forward and backward of the head of `tiny` that attends furthest back on average."""
    model, tokenizer, *_ = load_run(_trained(runs, "tiny"))
    ids = tokenizer.encode(HERO_TEXT)[None]
    layers = attention_gradients(model, ids[:, :-1], ids[:, 1:])
    scale = layers[0].q.shape[-1] ** -0.5
    weights = [softmax(layer.q @ layer.k.mT * scale, mask=layer.mask)[0] for layer in layers]
    distances = [attention_distance(p) for p in weights]
    number, head = np.unravel_index(np.argmax(distances), np.shape(distances))
    layer = layers[number]
    return plots.forward_and_backward(layer.q[head], layer.k[head], layer.v[head], layer.do[head],
                                      layer.mask, list(HERO_TEXT[:-1]),
                                      name=f"layer {number + 1}, head {head + 1}")


def _replay(runs):
    folder = _trained(runs, "filmed")
    chosen = SimpleNamespace(run=str(folder), text=FILM_TEXT, layer=None, head=None, seed=0)
    return film_of(States(folder), chosen, read_metrics(folder / "metrics.jsonl"))


def _comparison(runs):
    compared = compare.loaded_runs([_trained(runs, name) for name in COMPARED])
    return compare.drawn([run.measured() for run in compared])


def _similarity(runs):
    rng = np.random.default_rng(0)
    learned = LearnedPositions(64, 64, rng, dtype=np.float64).weight.data
    return plots.similarity_by_distance({"sinusoids": sinusoidal_positions(np.arange(64), 64),
                                         "learned, at initialization": learned})


def _proof(runs):
    q, k = np.random.default_rng(0).standard_normal((2, 32))
    return plots.rotary_proof(q, k)


def _norms(runs):
    """Gradient norms of 24 blocks at initialization, pre-norm and post-norm."""
    flows, L = {}, 24
    for name, norm_first in (("pre-norm", True), ("post-norm", False)):
        options = {**TRANSFORMER_2017, "norm_first": norm_first, "init_std": 64 ** -0.5}
        config = DecoderConfig(**options, vocab_size=65, context_length=64, n_layers=L, n_heads=4,
                               d_model=64)
        norms = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            model, ids = Decoder(config, rng), rng.integers(0, 65, (4, 65))
            for block in model.blocks:           # branches half as large as the stream at any depth
                block.attention.output.weight.data *= np.float32((2 * L) ** 0.5 / 2)
                # four times as many inputs
                block.feedforward.output.weight.data *= np.float32((2 * L) ** 0.5 / 4)
            norms.append(gradient_norm_by_block(model, (ids[:, :-1], ids[:, 1:]))["blocks"])
        flows[name] = np.mean(norms, axis=0)
    return plots.gradient_flow(flows, title="Gradient norm by block at initialization (mean of "
                               "three seeds)")


def _oracle(runs):
    rng, double = np.random.default_rng(0), dict(dtype=np.float64)
    attention = MultiHeadAttention(4, 2, rng, **double)
    feedforward = FeedForward(4, 8, "gelu", rng, **double)
    block = TransformerBlock(
        attention=SelfAttentionBranch(LayerNorm(4, **double), attention),
        feedforward=ResidualBranch(LayerNorm(4, **double), feedforward))
    return plots.step_error_curve(step_errors(block, [rng.standard_normal((1, 3, 4))]),
                                  title="Error of the derivatives of a Transformer block")


@cache
def _steps():
    """Causal attention of eight queries and keys of width 2, in tiles of 2 x 2."""
    q, k, v = np.random.default_rng(3).standard_normal((3, 1, 1, 8, 2))
    return list(tiled_attention_steps(2 * q, k, v, CAUSAL, tile=2))


def _costs(runs):
    lengths = (128, 256, 512, 1024, 2048)
    rows = [measure(Case.parse(f"1x4x{T}x64:causal"), seconds=2.0) for T in lengths]
    times = {name: [row[f"{prefix}forward_ms"] and row[f"{prefix}forward_ms"]
                    + row[f"{prefix}backward_ms"] for row in rows]
             for name, prefix in (("all T x S weights, NumPy", "numpy_"), ("tiles, compiled", ""))}
    memory = {name: [row[f"{prefix}extra_bytes"] for row in rows]
              for name, prefix in (("all T x S weights, NumPy", "numpy_"), ("tiles, compiled", ""))}
    return plots.attention_costs(lengths, times, memory, title="Attention by sequence length: 4 "
                                 "causal heads of width 64")


def _growth(runs):
    grown = growth(seconds=1.0)
    return plots.growth_of_time(grown, {size: slope(times) for size, times in grown.items()})


def _lstm_gates(runs):
    """The gates of a small trained LSTM over a text."""
    model, tokenizer, *_ = load_run(_trained(runs, "small_lstm"))
    x = model.embedding(tokenizer.encode(GATES_TEXT)[None])
    gates = {name: gate[0] for name, gate in lstm_gates(model.layers[0], x).items()}
    return plots.lstm_gate_maps(gates, list(GATES_TEXT), title="Gates of an LSTM over a text: the "
                                "10 units whose forget gate varies most")


def _model_costs(runs):
    config = DecoderConfig(vocab_size=65, context_length=64, n_layers=4, n_heads=4, d_model=128,
                           bias=False, norm="rms_norm", feedforward="swiglu", positions="rotary")
    return plots.cost_treemap(model_costs(config))


def _memory_hierarchy(runs):
    """A picture of the compiled kernel's tiles, with the caches of this machine."""
    T, D = 4096, 64
    return plots.memory_hierarchy(attention_traffic(T, T, D), memory_levels(),
                                  title=f"One head in the memory hierarchy: T = S = {T}, D = {D}")


ANIMATED = ("replay", "rotary_clocks", "tiles")       # a .gif each
# file: a function of the folder of runs
DRAWN = {
    "hero": _hero,
    "replay": _replay,
    "comparison": _comparison,
    "sinusoids": lambda runs: plots.position_vectors(sinusoidal_positions(np.arange(64), 64),
                                                     title="Sinusoidal positions"),
    "similarity": _similarity,
    "alibi": lambda runs: plots.position_biases(alibi(np.zeros((4, 32, 32)), alibi_slopes(4))[0],
                                                title="ALiBi, four heads"),
    "rotary": lambda runs: plots.rotary_clocks(64),
    "rotary_clocks": lambda runs: plots.rotary_animation(64),
    "rotary_proof": _proof,
    "norms": _norms,
    "oracle": _oracle,
    "audit": lambda runs: plots.audit_errors(audit()),
    "tile_order": lambda runs: plots.tile_order(_steps()),
    "tile_frames": lambda runs: plots.tile_frames(_steps(), (0, 1, 5)),
    "tiles": lambda runs: plots.tile_animation(_steps()),
    "attention_costs": _costs,
    "growth": _growth,
    "model_costs": _model_costs,
    "lstm_gates": _lstm_gates,
    "memory_hierarchy": _memory_hierarchy,
    "scaling_law": lambda runs: EXPERIMENTS["scaling-law"].measure(seed=1).picture(),
    "slips": lambda runs: EXPERIMENTS["slips"].measure(seed=1).picture(),
    **DECK,
}
