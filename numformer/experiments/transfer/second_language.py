"""Multilingual denoising, as mBART's, and a task that is learned in one of two languages.

One encoder-decoder restores sentences of both languages, each after the token of its language, and
is fine-tuned to tag the words of one alone. Whether it tags those of the other is *zero-shot*
transfer. Liu et al. (2020), "Multilingual Denoising Pre-training for Neural Machine Translation",
section 2.2, for the noise and the token; Pires et al. (2019), "How multilingual is Multilingual
BERT?", for the question and the task; Dufter and Schuetze (2020), "Identifying Elements Essential
for BERT's Multilinguality", for a second language by rule.
"""

from functools import partial

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import Batch, NoiseStream, infill
from numformer.data.batches.epochs import Epochs, EpochStream
from numformer.data.batches.pairs import pair_batch
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained
from numformer.experiments.transfer.coded_tales import (
    BOS, EOS, LANGUAGES, MASK, PADDING, data, right_by_word)
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.models import EncoderDecoder, EncoderDecoderConfig
from numformer.plots.axes import colours, faint, new_axes, styled
from numformer.recipes.preset import more
from numformer.seeds import WEIGHTS, branch
from numformer.training import Trainer, TrainingConfig

SPECIAL = PADDING, BOS, EOS
STARTS = {"scratch": (), "plain": ("plain",), "both": LANGUAGES}      # languages of pre-training
STEPS, TUNING = 200, 60                                               # STEPS for each language
MEASURED = 100                                                        # sentences at once
RATE = 0.3                                                            # of hidden tokens
WRONG_INPUTS = 0.15                                                   # as in `NoiseStream`
_MODEL = dict(context_length=40, n_layers=1, n_heads=4, d_model=32, positions="rotary",
              norm_first=True, embedding_scale=False, init_std=0.06)
_TRAINING = dict(optimizer="muon", batch_size=64, learning_rate=0.01, min_learning_rate=0.0,
                 schedule="linear", muon_ratio=3.0, momentum=0.95, weight_decay=0.0,
                 eval_every=0)


def noise(text, rng):
    """(source, target): a sentence with infilled spans, and whole; its language stays."""
    return np.concatenate([text[:1], infill(text[1:], MASK, rng, RATE)]), text


def new_model(seed):
    """The model before its first step; cross-attention begins like to like."""
    config = EncoderDecoderConfig(**_MODEL, vocab_size=data().vocab_size)
    model = EncoderDecoder(config, branch(seed, WEIGHTS))
    for block in model.blocks:
        cross = block.cross_attention
        cross.key.weight.data[:] = cross.query.weight.data
    return model


def train(model, stream, seed, steps):
    """Train a model on all batches of a stream, and return it."""
    config = TrainingConfig(**_TRAINING, seed=seed, steps=steps, warmup_steps=min(30, steps))
    return trained(Trainer(model, stream, [], config)).model


def pretrained(languages, seed, steps=None):
    """The state of a model that restores sentences of some languages."""
    texts = [text for language in languages for text in data().texts[language]]
    stream = NoiseStream(texts, noise, _TRAINING["batch_size"], seed, *SPECIAL, WRONG_INPUTS)
    steps = steps or STEPS * len(languages)
    return train(new_model(seed), stream, seed, steps).state_dict()


class TagStream(EpochStream):
    """Batches of sentences with tags, in the order of `Epochs`."""

    def __init__(self, pairs, batch_size, seed):
        super().__init__(Epochs(len(pairs), batch_size, seed))
        self.pairs = pairs

    def build(self, rows, epoch, step):
        return tag_batch([self.pairs[row] for row in rows])


def tag_batch(pairs):
    """The batch of (sentence, tags): the decoder reads the sentence, too, and tags each word.

    Examples
    --------
    >>> batch = tag_batch([(np.array([4, 30, 31]), np.array([6, 7])),
    ...                    (np.array([4, 30]), np.array([6]))])
    >>> batch.outputs.tolist(), batch.targets.tolist()
    ([[1, 4, 30, 31], [1, 4, 30, 0]], [[-100, -100, 6, 7], [-100, -100, 6, -100]])
    """
    batch = pair_batch([(source, source) for source, _ in pairs], *SPECIAL)
    targets = np.full_like(batch.targets, IGNORE_INDEX)
    for row, (_, tags) in zip(targets, pairs):
        row[2 : len(tags) + 2] = tags                                 # after BOS and the language
    return Batch(inputs=batch.inputs, lengths=batch.lengths, outputs=batch.outputs,
                 targets=targets)


def tuned(state, language, seed, steps=None):
    """A model that begins with a state, or as it is initialized, fine-tuned on tags."""
    model = new_model(seed)
    if state is not None:
        model.load_state_dict(state)
    stream = TagStream(data().labelled[language], _TRAINING["batch_size"], seed)
    return train(model, stream, seed, steps or TUNING)


def accuracy(model, pairs):
    """The fraction of tags that are right."""
    right = []
    for first in range(0, len(pairs), MEASURED):
        *inputs, targets = tag_batch(pairs[first : first + MEASURED])
        with one_blas_thread():
            found = predicted_classes("second_language", model(*inputs), model)
        right.append((found == targets)[targets != IGNORE_INDEX])
    return float(np.concatenate(right).mean())


def measure(seed, steps=None):
    """Pre-train on no, one and both languages; fine-tune in the first, and measure in both."""
    labelled, held_out = data().labelled["plain"], data().held_out
    figures = {f"{language}_by_word": right_by_word(labelled, held_out[language])
               for language in LANGUAGES}
    for start, languages in STARTS.items():
        state = pretrained(languages, seed, steps) if languages else None
        model = tuned(state, "plain", seed, steps)
        figures |= {f"{language}_from_{start}": accuracy(model, held_out[language])
                    for language in LANGUAGES}
    model = tuned(state, "coded", seed, steps)
    figures["coded_tuned_in_coded"] = accuracy(model, held_out["coded"])
    return Outcome(figures, partial(_drawn, figures))


@styled
def _drawn(figures):
    ax = new_axes((8, 4.5))
    at, width = np.arange(len(STARTS)), 0.38
    for n, (language, colour) in enumerate(zip(LANGUAGES, colours(ax))):
        bars = ax.bar(at + (n - 0.5) * width,
                      [figures[f"{language}_from_{start}"] for start in STARTS], width - 0.04,
                      color=colour, label=f"measured in the {language} language")
        ax.bar_label(bars, fmt="{:.2f}", label_type="center", color="white")
    ax.axhline(figures["coded_by_word"], color=faint(ax), linestyle="--",
               label="coded, the most frequent tag of each known word")
    ax.set_xticks(at, ["not pre-trained", "pre-trained\non plain",
                       "pre-trained on\nplain and coded"])
    ax.set(ylabel="parts of speech that are right", ylim=(0, 1.45),
           title="Tagging two languages, fine-tuned on the plain one alone")
    ax.legend(loc="upper left")
    return ax


# There is no claim that the task transfers: it does not at this size
LANGUAGE_EXPERIMENT = Experiment(
    "Does a model of two languages do in one of them what it was fine-tuned for in the other?",
    measure, (more("plain_from_both", beats="plain_by_word"),
              *(more("coded_tuned_in_coded", beats=f"coded_{name}")
                for name in ("by_word", "from_both", "from_plain", "from_scratch"))))
