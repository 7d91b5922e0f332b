"""The recurrent decoder with attention, and the sequence-to-sequence models made with it."""

import numpy as np

from numformer.layers import AttentiveGRU
from numformer.models import Seq2Seq, Seq2SeqConfig
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case
from numformer.verify.registry.transformer import trained_with


def attentive(score, *sizes):
    return lambda rng, dtype: AttentiveGRU(*sizes, rng, score, dtype)


def ragged():
    return {"lengths": [4, 2]}


def seq2seq(attention, **options):
    sizes = dict(vocab_size=6, d_model=2, d_hidden=4)
    return lambda rng, dtype: Seq2Seq(Seq2SeqConfig(**{**sizes, **options}, attention=attention,
                                                    dtype=np.dtype(dtype).name), rng)


INPUTS, LENGTHS = np.array([[3, 4, 5], [5, 3, 0]]), np.array([3, 2])
OUTPUTS = np.array([[1, 4], [1, 3]])
IDS = (INPUTS, LENGTHS, OUTPUTS)


def with_targets(*ids):
    return (*ids, np.array([[4, 2], [3, -100]]))


LAYERS = [
    Case("attentive gru, additive", attentive("additive", 2, 3, 4), [(2, 3, 2), (2, 3), (2, 4, 4)],
         ragged,
         wrong=[((floats(2, 3, 3), floats(2, 3), floats(2, 4, 4)), ValueError, "C=2"),
                ((floats(2, 0, 2), floats(2, 3), floats(2, 4, 4)), ValueError, "empty"),
                ((floats(2, 3, 2), floats(2, 2), floats(2, 4, 4)), ValueError,
                 "(B, F) with B=2, F=3"),
                ((floats(2, 3, 2), floats(2, 3), floats(2, 4, 3)), ValueError, "C=4"),
                ((floats(2, 3, 2), floats(2, 3), floats(1, 4, 4)), ValueError, "B=1 whole"),
                ((floats(2, 3, 2), np.zeros((2, 3), np.float32), floats(2, 4, 4)), TypeError,
                 "float32"),
                ((floats(2, 3, 2), floats(2, 3), floats(2, 3, 4)), ValueError,
                 "lengths=[4, 2] must be B=2 whole numbers in 0 .. S=3")]),
    Case("attentive gru, general", attentive("general", 2, 3, 2), [(2, 2, 2), (2, 3), (2, 4, 2)],
         ragged),
    Case("attentive gru, dot", attentive("dot", 3, 2, 2), [(1, 3, 3), (1, 2), (1, 3, 2)]),
    Case("attentive gru, scaled dot, nothing to attend to", attentive("scaled_dot", 2, 2, 2),
         [(2, 2, 2), (2, 2), (2, 3, 2)],
         lambda: {"lengths": np.array([0, 3])}),
]

MODELS = [
    Case("seq2seq, additive", trained_with(seq2seq("additive", dropout=0.3), label_smoothing=0.1),
         [],
         seeded, ids=IDS, batch=with_targets,
         wrong=[((INPUTS, LENGTHS, OUTPUTS[0]), ValueError, "outputs must have shape (B, T)"),
                ((INPUTS, LENGTHS, OUTPUTS[:1]), ValueError, "2 inputs came with 1 outputs"),
                ((INPUTS, np.array([3, 0]), OUTPUTS), ValueError, "[3, 0]"),
                ((INPUTS, np.array([4, 1]), OUTPUTS), ValueError, "[4, 1]"),
                ((INPUTS, np.array([3.0, 1.0]), OUTPUTS), ValueError, "whole numbers"),
                ((INPUTS + 1, LENGTHS, OUTPUTS), ValueError, "0 .. 5"),
                ((INPUTS, LENGTHS, OUTPUTS - 2), ValueError, "0 .. 5"),
                ((INPUTS * 1.0, LENGTHS, OUTPUTS), TypeError, "integers")]),
    Case("seq2seq, general", seq2seq("general"), [], ids=IDS, batch=with_targets),
    Case("seq2seq, dot", seq2seq("dot"), [], ids=IDS, batch=with_targets),
    Case("seq2seq, scaled dot", seq2seq("scaled_dot"), [], ids=IDS, batch=with_targets),
    Case("seq2seq, no attention", seq2seq("none", dropout=0.3), [], seeded, ids=IDS,
         batch=with_targets),
]
