"""What happens beyond the trained length: one decoder for each position scheme."""

import numpy as np

from numformer.data import BlockStream, consecutive_blocks
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.functional import log_softmax
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.text.characters import TEXT

TRAINED, LONGEST = 64, 256                                            # tokens
# T5's last bucket and Shaw's last vector are distances that training has seen.
SCHEMES = {
    "none": {}, "learned": {}, "sinusoidal": {}, "rotary": {}, "alibi": {},
    "t5": dict(n_buckets=16, max_distance=32), "shaw": dict(max_distance=16)}
# context_length is the longest text of the test: learned positions need rows for all of it.
SMALL = Preset(
    dict(context_length=LONGEST, n_layers=2, n_heads=4, d_model=64, init_std=0.1, norm="rms_norm",
         bias=False),
    dict(optimizer="muon", muon_ratio=3.0, momentum=0.95, weight_decay=0.0, schedule="linear",
         learning_rate=0.012, min_learning_rate=0.0, warmup_steps=20, steps=400, batch_size=16),
    TEXT)


def measure(seed, steps=None):
    """Train each scheme on blocks of 64 tokens; measure its loss at each of 256 positions."""
    curves = {}
    for scheme, options in SCHEMES.items():
        trainer, task, tokenizer = trainer_of(SMALL, seed, steps,
                                              model={"positions": scheme, **options})
        text, held_out = map(tokenizer.encode, task.load(task.default_data).split())
        trainer.stream = BlockStream(text, TRAINED, trainer.config.batch_size, seed)
        curves[scheme] = loss_by_position(trained(trainer).model, blocks_of(held_out))
    figures = {}
    for scheme, losses in curves.items():
        own, twice, four_times = (before(losses, length) for length in (1, 2, 4))
        figures[f"{scheme}_trained"] = own
        figures[f"{scheme}_twice_rise"] = twice - own
        figures[f"{scheme}_rise"] = four_times - own
    return Outcome(figures, lambda: _picture(curves), _table(curves))


def blocks_of(ids):
    """Blocks of 256 tokens that begin every 64: so the same tokens are at all four distances."""
    return [batch for start in range(0, LONGEST, TRAINED)
            for batch in consecutive_blocks(ids[start:], LONGEST, 4 * LONGEST)
            if batch.inputs.shape[1] == LONGEST]


def loss_by_position(model, batches):
    """The mean cross-entropy at each position, over batches of one length."""
    total = sum(
        -np.take_along_axis(log_softmax(model(batch.inputs))[0], batch.targets[..., None],
                            axis=-1)[..., 0].sum(axis=0, dtype=np.float64) for batch in batches)
    return total / sum(len(batch.inputs) for batch in batches)


def before(losses, length):
    """The mean loss of the last 32 positions before a multiple of the trained length."""
    end = length * TRAINED
    return float(losses[end - TRAINED // 2:end].mean())


def _picture(curves):
    from numformer.plots import losses_by_position

    return losses_by_position(curves, TRAINED, title="Trained on 64 tokens, read 256")


def _table(curves):
    rows = [f"{'positions':12}" + "".join(f"{f'{64 * n - 31}-{64 * n}':>9}" for n in range(1, 5))]
    rows += [f"{scheme:12}" + "".join(f"{before(losses, n):9.3f}" for n in range(1, 5))
             for scheme, losses in curves.items()]
    return "\n".join(rows)


EXPERIMENT = Experiment(
    "Which positions carry over to texts longer than those of training?", measure, (
        Claim("alibi_rise", 0.03), Claim("alibi_rise", beats="t5_rise"),
        Claim("t5_rise", beats="rotary_rise"),
        more("sinusoidal_rise", 0.5), more("rotary_rise", 0.5), more("learned_rise", 0.5)))
