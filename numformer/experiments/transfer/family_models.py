"""The models of `three_families`: their sizes, what they read, how right they are, what they cost.

The encoder marks a span of its text; the others write the target.
"""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import Batch, PairStream, PassageStream, passage_rows
from numformer.data.batches.epochs import Epochs, EpochStream
from numformer.data.batches.pairs import pair_batch
from numformer.experiments.transfer.family_tasks import BOS, EOS, PADDING, SEPARATOR
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.layers import Linear, NoPositions
from numformer.models import (
    BertSpanClassifier, BertSpanClassifierConfig, Decoder, DecoderConfig, EncoderDecoder,
    EncoderDecoderConfig, best_spans)
from numformer.recipes.world.answers import LONGEST, text_tokens
from numformer.recipes.world.world_task import TargetRows
from numformer.seeds import WEIGHTS, branch

MOST_TOKENS = 144                                                     # of a source and target
BATCH = 50                                                            # examples measured at once
SIZES = dict(context_length=MOST_TOKENS, n_heads=4, d_model=64, positions="rotary",
             norm_first=True, init_std=0.06)


def families(vocab_size, seed):
    """Functions that make the three models, by name: four blocks each.

    Three of those of the encoder-decoder are its encoder's.
    """
    def rng():
        return branch(seed, WEIGHTS)

    sizes = dict(SIZES, vocab_size=vocab_size)
    return {
        "encoder": lambda: prepared(BertSpanClassifier(
            BertSpanClassifierConfig(**sizes, n_layers=4), rng())),
        "decoder": lambda: prepared(Decoder(DecoderConfig(**sizes, n_layers=4), rng())),
        "encoder_decoder": lambda: prepared(EncoderDecoder(
            EncoderDecoderConfig(**sizes, n_encoder_layers=3, n_layers=1), rng()))}


def prepared(model):
    """The same model, begun as `BertEncoderRecipe` does, so that questions find their sentences.

    The first block compares content alone, and all keys begin like queries.
    """
    readers = getattr(model, "backbone", model)
    blocks = [*getattr(readers, "encoder", readers).blocks]
    blocks[0].attention.positions = NoPositions()
    if isinstance(model, EncoderDecoder):
        blocks += model.blocks
    for block in blocks:
        for attention in (block.attention, getattr(block, "cross_attention", None)):
            if attention is not None:
                attention.key.weight.data[:] = attention.query.weight.data
    return model


class CausalStream(EpochStream):
    """Sources, BOS and targets in a row for a decoder, which learns the targets alone."""

    def __init__(self, examples, batch_size, seed):
        lengths = [len(each.source) for each in examples]
        super().__init__(Epochs(len(examples), batch_size, seed, lengths))
        self.examples = examples

    def build(self, rows, epoch, step):
        return causal_batch([self.examples[row][:2] for row in rows])


def causal_batch(pairs):
    """The batch of (source, target) pairs for a decoder.

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


def span_rows(examples):
    """Rows for a span classifier: BOS as the class token, question, text; and where answers are."""
    middle = [each.source.index(SEPARATOR) for each in examples]
    rows = passage_rows([(np.array(each.source[:n]), np.array(each.source[n + 1:]))
                         for n, each in zip(middle, examples)],
                        MOST_TOKENS, PADDING, BOS, SEPARATOR)
    first, past = np.array([each.span for each in examples]).T
    return TargetRows(rows, np.stack([first + 1, past], axis=1))      # after BOS; the last token


def stream_of(family, examples, batch_size, seed):
    """The batches that a family trains on."""
    if family == "encoder":
        return PassageStream(span_rows(examples), batch_size, seed)
    if family == "decoder":
        return CausalStream(examples, batch_size, seed)
    return PairStream([each[:2] for each in examples], batch_size, seed, PADDING, BOS, EOS)


def accuracy(model, family, examples):
    """The fractions of whole targets and of their tokens, given those before, that are right.

    Greedy search writes the whole target if each token and EOS is predicted after those before. A
    span has no tokens to predict: for the encoder, both figures are that of whole targets.
    """
    whole, tokens = [], []
    for first in range(0, len(examples), BATCH):
        part = examples[first : first + BATCH]
        with one_blas_thread():
            if family == "encoder":
                tokens.append(np.array(found := spans_are_right(model, part)))
                whole.append(found)
                continue
            pairs = [each[:2] for each in part]
            *inputs, targets = (causal_batch(pairs) if family == "decoder" else
                                pair_batch(pairs, PADDING, BOS, EOS))
            found = predicted_classes("family_models", model(*inputs), model)
            right = found == targets                                  # (B, T)
        whole.append((right | (targets == IGNORE_INDEX)).all(axis=1))
        tokens.append(right[(targets != IGNORE_INDEX) & (targets != EOS)])
    return float(np.concatenate(whole).mean()), float(np.concatenate(tokens).mean())


def spans_are_right(model, examples):
    """Whether the most probable span of each text has the words of the answer: a list of bool."""
    rows = span_rows(examples).take(slice(None))
    spans = best_spans(model(rows.ids, rows.lengths, rows.segments), text_tokens(rows), LONGEST)
    return [ids[start : end + 1].tolist() == each.target
            for ids, (start, end), each in zip(rows.ids, spans, examples)]


def flops(model, family, examples):
    """FLOPs of the forward pass of an example, mean: two for each weight and token, in matrices.

    The products of attention are left out, and so are those of the LM head.
    """
    source = np.mean([len(each.source) for each in examples])
    target = np.mean([len(each.target) for each in examples]) + 1     # BOS
    total = 0
    for name, layer in model.named_layers():
        if isinstance(layer, Linear):
            reads = name.startswith("encoder.") or name.endswith(
                ("cross_attention.key", "cross_attention.value"))
            tokens = {"encoder": source + 2, "decoder": source + target}.get(
                family, source if reads else target)
            total += 2 * layer.weight.data.size * tokens
    return float(total)
