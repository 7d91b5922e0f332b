"""An encoder, a decoder and an encoder-decoder on the same task, and the last two on a second.

The first is entailment, for which the encoder has a head and the others write the label. The second
is to write summaries, which the encoder cannot do.
"""

from collections import Counter
from functools import lru_cache, partial
from time import perf_counter
from typing import NamedTuple

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import Batch, LabelledRows, PairStream, PassageStream, passage_rows, tales
from numformer.data.batches.epochs import Epochs, EpochStream
from numformer.data.batches.pairs import pair_batch
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained
from numformer.functional import IGNORE_INDEX
from numformer.layers import Linear
from numformer.models import (
    BertClassifier, BertClassifierConfig, Decoder, DecoderConfig, EncoderDecoder,
    EncoderDecoderConfig, KneserNey)
from numformer.recipes.preset import more
from numformer.training import Trainer, TrainingConfig

TRAINING_TALES, HELD_OUT_TALES = 4000, 100
STEPS = {"entailment": 300, "summaries": 150}
LABELS = "entailment", "neutral", "contradiction"
PADDING, BOS, EOS, SEPARATOR = range(4)                               # ids before those of words
LONGEST = 144                                                         # tokens of a text and answer
N_GRAM = 5
_SIZES = dict(context_length=LONGEST, n_heads=4, d_model=64, positions="rotary", norm_first=True,
              init_std=0.06)
_TRAINING = dict(optimizer="muon", batch_size=32, learning_rate=0.01, min_learning_rate=0.0,
                 schedule="linear", muon_ratio=3.0, momentum=0.95, weight_decay=0.0, eval_every=0)


class Examples(NamedTuple):
    """A task: (source, target) pairs of ids; those held out; and accuracy without a model."""

    training: list
    held_out: list
    baselines: dict


class CausalStream(EpochStream):
    """Sources, BOS and targets in a row for a decoder, which learns the targets alone."""

    def __init__(self, pairs, batch_size, seed):
        super().__init__(Epochs(len(pairs), batch_size, seed, [len(pair[0]) for pair in pairs]))
        self.pairs = pairs

    def build(self, rows, epoch, step):
        return causal_batch([self.pairs[row] for row in rows])


def causal_batch(pairs):
    """The batch of pairs for a decoder.

    Examples
    --------
    >>> inputs, targets = causal_batch([([7, 8], [9]), ([7], [5, 6])])
    >>> inputs.tolist(), targets.tolist()
    ([[7, 8, 1, 9], [7, 1, 5, 6]], [[-100, -100, 9, 2], [-100, 5, 6, 2]])
    """
    T = max(len(source) + len(target) for source, target in pairs) + 1
    inputs = np.full((len(pairs), T), PADDING)
    targets = np.full((len(pairs), T), IGNORE_INDEX)
    for n, (source, target) in enumerate(pairs):
        row = [*source, BOS, *target]
        inputs[n, :len(row)] = row
        targets[n, len(source) : len(row)] = [*target, EOS]
    return Batch(inputs=inputs, targets=targets)


def encoder_rows(pairs, first_label):
    """The rows of a classifier; labels are the targets, which are one token."""
    rows = passage_rows([(np.array(source),) for source, _ in pairs], LONGEST, PADDING, BOS,
                        SEPARATOR)
    return LabelledRows(rows, [target[0] - first_label for _, target in pairs])


def families(vocab_size, seed):
    """The three models by name: four blocks each, one of them the encoder-decoder's decoder."""
    def rng():
        return np.random.default_rng([seed, 0])

    sizes = dict(_SIZES, vocab_size=vocab_size)
    return {
        "encoder": lambda: BertClassifier(
            BertClassifierConfig(**sizes, n_layers=4, n_classes=len(LABELS)), rng()),
        "decoder": lambda: Decoder(DecoderConfig(**sizes, n_layers=4), rng()),
        "encoder_decoder": lambda: EncoderDecoder(
            EncoderDecoderConfig(**sizes, n_encoder_layers=3, n_layers=1), rng())}


def measure(seed, steps=None):
    """Train and measure all: accuracy on the tokens of targets, given those before."""
    vocab_size, tasks = data()
    figures, made = {}, {}
    lines = ["task, family: accuracy; parameters; MFLOPs an example; seconds"]
    for task, examples in tasks.items():
        figures |= {f"{task}_{name}": value for name, value in examples.baselines.items()}
        for family, new in families(vocab_size, seed).items():
            if (task, family) == ("summaries", "encoder"):
                lines.append("summaries, encoder: it has no way to generate text")
                continue
            model, began = new(), perf_counter()
            train(model, family, examples.training, vocab_size, seed, steps or STEPS[task])
            seconds = perf_counter() - began
            tokens, whole = accuracy(model, family, examples.held_out, vocab_size)
            made[task, family] = figures[f"{task}_{family}"] = tokens
            if task == "summaries":
                figures[f"summaries_{family}_exact"] = whole
            size = sum(parameter.data.size for parameter in model.parameters())
            lines.append(f"{task}, {family}: {tokens:.3f}; {size:,}; "
                         f"{flops(model, family, examples.held_out) / 1e6:.1f}; {seconds:.0f}")
    baselines = {task: max(examples.baselines.values()) for task, examples in tasks.items()}
    return Outcome(figures, partial(_drawn, made, baselines), "\n".join(lines))


def train(model, family, pairs, vocab_size, seed, steps):
    """Train a model on pairs."""
    config = TrainingConfig(**_TRAINING, steps=steps, warmup_steps=min(30, steps), seed=seed)
    size = config.batch_size
    if family == "encoder":
        stream = PassageStream(encoder_rows(pairs, vocab_size - len(LABELS)), size, seed)
    elif family == "decoder":
        stream = CausalStream(pairs, size, seed)
    else:
        stream = PairStream(pairs, size, seed, PADDING, BOS, EOS)
    return trained(Trainer(model, stream, [], config))


def accuracy(model, family, pairs, vocab_size):
    """Of the tokens of targets, given those before, and of whole targets.

    A greedy answer is the whole target if each token is predicted after those before.
    """
    tokens, whole = [], []
    for first in range(0, len(pairs), 50):
        part = pairs[first : first + 50]
        with one_blas_thread():
            if family == "encoder":
                ids, lengths, targets = encoder_rows(part, vocab_size - len(LABELS)).take(
                    slice(None))
                right, counted = (model(ids, lengths).argmax(axis=-1) == targets)[:, None], True
            else:
                *inputs, targets = (causal_batch(part) if family == "decoder" else
                                    pair_batch(part, PADDING, BOS, EOS))
                right = model(*inputs).argmax(axis=-1) == targets     # (B, T)
                counted = (targets != IGNORE_INDEX) & (targets != EOS)
                whole.append((right | (targets == IGNORE_INDEX)).all(axis=1))
        tokens.append(right[np.broadcast_to(counted, right.shape)])
    return float(np.concatenate(tokens).mean()), float(np.concatenate(whole or tokens).mean())


def flops(model, family, pairs):
    """Of the forward pass of an example, mean: two for each weight and token, in all matrices.

    The products of attention are left out, and so are those of the LM head.
    """
    source = np.mean([len(source) for source, _ in pairs])
    target = np.mean([len(target) for _, target in pairs]) + 1        # BOS
    total = 0
    for name, layer in model.named_layers():
        if isinstance(layer, Linear):
            reads = name.startswith("encoder.") or name.endswith(
                ("cross_attention.key", "cross_attention.value"))
            tokens = {"encoder": source + 2, "decoder": source + target}.get(
                family, source if reads else target)
            once = family == "encoder" and not name.startswith("backbone.")
            total += 2 * layer.weight.data.size * (1 if once else tokens)
    return float(total)


@lru_cache(maxsize=1)
def data():
    """(vocabulary size, {task: Examples}); the labels are the last ids of the vocabulary."""
    told, held_out = tales(TRAINING_TALES), tales(HELD_OUT_TALES, held_out=True)
    words = sorted({word for each in told for word in (
        *each.words, *each.summary, *(w for claim in each.claims for w in claim.hypothesis))})
    ids = {word: n for n, word in enumerate([*words, *LABELS], EOS + 2)}

    def encoded(words):
        return [ids[word] for word in words]

    def entailment(part):
        return [([*encoded(each.words[slice(*claim.premise)]), SEPARATOR,
                  *encoded(claim.hypothesis)], [ids[claim.label]])
                for each in part for claim in each.claims]

    def summaries(part):
        return [(encoded(each.words), encoded(each.summary)) for each in part]

    pairs = entailment(told), entailment(held_out)
    summarized = summaries(told), summaries(held_out)
    size = max(ids.values()) + 1
    return size, {
        "entailment": Examples(*pairs, {"majority": by_feature(*pairs, lambda source: 0),
                                        "overlap": by_feature(*pairs, missing)}),
        "summaries": Examples(*summarized, {"n_gram": by_n_gram(*summarized, size)})}


def missing(source):
    """How many words of a hypothesis are not in its premise."""
    middle = source.index(SEPARATOR)
    return len(set(source[middle + 1:]) - set(source[:middle]))


def by_feature(training, held_out, feature):
    """Accuracy of the most frequent target for each value of a feature of the source."""
    counts = {}
    for source, (label,) in training:
        counts.setdefault(feature(source), Counter())[label] += 1
    guesses = [counts[feature(source)].most_common(1)[0][0] for source, _ in held_out]
    return float(np.mean([guess == label for guess, (_, (label,)) in zip(guesses, held_out)]))


def by_n_gram(training, held_out, vocab_size):
    """Accuracy on the tokens of targets of an n-gram of targets, given the tokens before."""
    n_gram = KneserNey.fit(np.concatenate([[BOS, *target] for _, target in training]), N_GRAM,
                           vocab_size)
    right = [n_gram.distribution([BOS, *target[:t]][1 - N_GRAM:]).argmax() == token
             for _, target in held_out for t, token in enumerate(target)]
    return float(np.mean(right))


def _drawn(made, baselines):
    from numformer.plots.axes import colours, faint, new_axes

    ax = new_axes((8, 4.5))
    names = [f"{family.replace('_', '-')}\n{task}" for task, family in made]
    bars = ax.bar(names, made.values(), width=0.6,
                  color=[colours(ax)[list(baselines).index(task)] for task, _ in made])
    ax.bar_label(bars, fmt="{:.2f}")
    for n, (task, _) in enumerate(made):
        ax.plot([n - 0.4, n + 0.4], [baselines[task]] * 2, color=faint(ax), linestyle="--",
                linewidth=2, label="best baseline" if not n else None)
    ax.set(ylabel="accuracy on target tokens", ylim=(0, 1.1),
           title="Three families on the same tasks, four blocks each")
    ax.legend(loc="upper left")
    return ax


# No claim about entailment: in so few steps from scratch, none of the three is ahead of the overlap
FAMILIES_EXPERIMENT = Experiment(
    "What do an encoder, a decoder and an encoder-decoder of the same size learn?", measure,
    tuple(more(f"summaries_{family}", beats="summaries_n_gram")
          for family in ("decoder", "encoder_decoder")))
