"""Window, sparse, linear and low-rank attention next to full attention: costs and losses."""

import math

import numpy as np

from numformer.data import BlockStream
from numformer.data.batches.batch import Batch
from numformer.experiments.costs.layer_costs import (
    FEW, FITTED, LENGTHS, WIDTH, WindowAttention, WrittenOutAttention, fitted_slope, layer_costs)
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.functional import CAUSAL, EVERYWHERE, IGNORE_INDEX
from numformer.layers import LinearAttention, LowRankAttention, SparseAttention
from numformer.models import Decoder
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.text.characters import TEXT
from numformer.seeds import WEIGHTS, branch
from numformer.training import Trainer, mean_loss

T, STRIDE, RANK = 128, 11, 32
HIDDEN = 0.15                                         # fraction of masked characters
# Learned positions: in the efficient forms of attention there is no place for others.
SMALL = Preset(
    dict(context_length=T, n_layers=2, n_heads=4, d_model=64, init_std=0.1, norm="rms_norm",
         bias=False),
    dict(optimizer="muon", muon_ratio=3.0, momentum=0.95, weight_decay=0.0, schedule="linear",
         learning_rate=0.012, min_learning_rate=0.0, warmup_steps=20, steps=300, batch_size=8),
    TEXT)
TIME, MEMORY = "time of a step, ms", "peak memory of a step, MiB"


class MaskedEncoder(Decoder):
    """The same blocks without a causal mask: predicts masked tokens from both sides."""

    def features(self, ids, rng=None, pattern=EVERYWHERE):
        return super().features(ids, rng, EVERYWHERE)


class MaskedBlocks:
    """Blocks of text in which some characters are replaced by one more token, the mask."""

    def __init__(self, stream, mask_id):
        self.stream, self.mask_id = stream, mask_id

    def batch(self, step):
        ids, _ = self.stream.batch(step)
        return masked(ids, self.mask_id, np.random.default_rng([self.stream.seed, 3, step]))


def masked(ids, mask_id, rng):
    """A batch that hides some ids, its only targets."""
    hidden = rng.random(ids.shape) < HIDDEN
    hidden[0, 0] = True                               # at least one target
    return Batch(inputs=np.where(hidden, mask_id, ids), targets=np.where(hidden, ids, IGNORE_INDEX))


def measure(seed, steps=None):
    """Costs of one layer by length; losses of decoders, and of encoders for low-rank attention."""
    quantities = _costs(np.random.default_rng(seed), LENGTHS if steps is None else FEW)
    slopes = {quantity: {name: fitted_slope(values) for name, values in methods.items()}
              for quantity, methods in quantities.items()}
    figures = {f"{word}_slope_{_word(name)}": slope
               for word, quantity in (("time", TIME), ("memory", MEMORY))
               for name, slope in slopes[quantity].items()}
    options = dict(bias=False, std=0.1, output_std=0.05)
    layers = {
        "full": None, "window": None, "itself alone": None,
        "sparse": lambda rng: SparseAttention(64, 4, STRIDE, rng, **options),
        "linear": lambda rng: LinearAttention(64, 4, rng, **options)}
    windows = {"window": 2 * STRIDE, "itself alone": 1}               # as many keys as the sparse
    losses = {name: _decoder_loss(seed, steps, layer, windows.get(name, 0))
              for name, layer in layers.items()}
    encoders = {
        "full": _encoder_loss(seed, steps), "itself alone": _encoder_loss(seed, steps, window=1),
        "low-rank": _encoder_loss(
            seed, steps, lambda rng: LowRankAttention(64, 4, T, RANK, rng, **options))}
    figures |= {f"{_word(name)}_loss": loss for name, loss in losses.items()}
    figures |= {f"encoder_{_word(name)}_loss": loss for name, loss in encoders.items()}
    return Outcome(figures, lambda: _picture(quantities, slopes), _table(losses, encoders))


def _costs(rng, lengths):
    """{quantity: {method: {length: value}}} of one layer of width 64."""
    one = {"pattern": CAUSAL}
    methods = {
        "full, written out": lambda N: (WrittenOutAttention(WIDTH, 1, rng), one),
        "window of 64": lambda N: (WindowAttention(WIDTH, 1, rng), one),
        "sparse": lambda N: (SparseAttention(WIDTH, 1, math.isqrt(N), rng), one),
        "linear": lambda N: (LinearAttention(WIDTH, 1, rng), one),
        "low-rank, not causal": lambda N: (LowRankAttention(WIDTH, 1, N, RANK, rng), {})}
    times, bytes_ = {}, {}
    for name, make in methods.items():
        costs = {}
        for N in lengths:
            layer, options = make(N)
            costs[N] = layer_costs(layer, N, WIDTH, **options)
        times[name] = {N: milliseconds for N, (milliseconds, _) in costs.items()}
        bytes_[name] = {N: peak / 2 ** 20 for N, (_, peak) in costs.items()}
    return {TIME: times, MEMORY: bytes_}


def _decoder_loss(seed, steps, layer, window=0):
    """The validation loss of a decoder with this attention in all blocks."""
    trainer, *_ = trainer_of(SMALL, seed, steps, model=dict(sliding_window=window))
    model = with_attention(trainer.model, layer, seed)
    trainer = trained(Trainer(model, trainer.stream, trainer.validation, trainer.config))
    return mean_loss(model, _some(trainer.validation))


def _encoder_loss(seed, steps, layer=None, window=0):
    """The loss of an encoder at masked characters."""
    trainer, task, tokenizer = trainer_of(SMALL, seed, steps)
    c = trainer.model.config
    config = type(c).from_dict({**c.as_dict(), "vocab_size": c.vocab_size + 1,
                                "sliding_window": window})
    model = with_attention(MaskedEncoder(config, branch(seed, WEIGHTS)), layer, seed)
    stream = BlockStream(trainer.stream.ids, T, trainer.config.batch_size, seed)
    rng = np.random.default_rng(0)
    held_out = [masked(batch.inputs, c.vocab_size, rng) for batch in _some(trainer.validation)
                if batch.inputs.shape[1] == T]
    trained(Trainer(model, MaskedBlocks(stream, c.vocab_size), held_out, trainer.config))
    return mean_loss(model, held_out)


def with_attention(model, layer, seed):
    """A new model whose blocks have another attention, made by ``layer(rng)``; None: as it is."""
    rng = np.random.default_rng([seed, 4])
    for block in model.blocks if layer else ():
        block.attention = block.branches["attention"].sublayer = layer(rng)
    return model


def _some(batches):
    """About 30 of the validation batches, evenly spaced."""
    return batches[::max(1, len(batches) // 30)]


def _word(name):
    return name.partition(",")[0].replace("-", "_").replace(" of 64", "").replace(" ", "_")


def _picture(quantities, slopes):
    from numformer.plots import power_law_panels

    return power_law_panels(quantities, slopes, FITTED,
                            title=f"Attention of width {WIDTH}, forward and backward")


def _table(losses, encoders):
    rows = [f"{'attention':18}{'decoder':>9}{'encoder, masked':>17}"]
    rows += [f"{name:18}" + "".join(
        f"{found[name]:{width}.3f}" if name in found else f"{'-':>{width}}"
        for found, width in ((losses, 9), (encoders, 17)))
        for name in dict.fromkeys([*losses, *encoders])]
    return "\n".join(rows)


EXPERIMENT = Experiment(
    "What does attention that is not quadratic save, and what does it lose?", measure, (
        more("memory_slope_full", 1.8), Claim("memory_slope_window", 1.2),
        Claim("memory_slope_sparse", 1.65), Claim("memory_slope_linear", 1.2),
        Claim("memory_slope_low_rank", 1.2),
        Claim("time_slope_linear", beats="time_slope_full"),
        Claim("window_loss", beats="itself_alone_loss"),
        Claim("sparse_loss", beats="itself_alone_loss"),
        Claim("linear_loss", beats="itself_alone_loss"),
        Claim("encoder_low_rank_loss", beats="encoder_itself_alone_loss")))
