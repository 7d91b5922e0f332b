"""Language models without attention, and what is built on a decoder: a classifier, forecasts, a
policy."""

import numpy as np

from numformer.functional import IGNORE_INDEX
from numformer.models import (
    ConvolutionLanguageModel, ConvolutionLanguageModelConfig, DecoderClassifier,
    DecoderClassifierConfig, Forecaster, ForecasterConfig, PolicyDecoder, PolicyDecoderConfig,
    RecurrentLanguageModel, RecurrentLanguageModelConfig)
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case
from numformer.verify.registry.transformer import trained_with

IDS = np.array([[3, 1, 4], [1, 5, 1]])                               # with repeats


def model(kind, config, **options):
    sizes = dict(vocab_size=7, context_length=6, n_layers=2, d_model=4)
    return lambda rng, dtype: kind(config(**{**sizes, **options}, dtype=np.dtype(dtype).name), rng)


def recurrent(**options):
    return model(RecurrentLanguageModel, RecurrentLanguageModelConfig, **options)


def convolution(**options):
    return model(ConvolutionLanguageModel, ConvolutionLanguageModelConfig, **options)


def classifier(**options):
    return model(DecoderClassifier, DecoderClassifierConfig, n_heads=2, d_hidden=5, n_classes=3,
                 **options)


LENGTHS = np.array([3, 2])


def labelled(ids):
    return ids, LENGTHS, np.array([2, 0])


def policy(**options):
    return model(PolicyDecoder, PolicyDecoderConfig, n_heads=2, d_hidden=5, n_layers=1, **options)


def answered(ids):
    """Of two answers the second is shorter; some ratios to the old policy are beyond the clip."""
    rng, targets = np.random.default_rng(3), np.roll(ids, -1, axis=1)
    targets[:, 0] = targets[1, -1] = IGNORE_INDEX                     # a prompt, and padding
    old, reference = -2 + 0.5 * rng.standard_normal((2, *ids.shape))
    return ids, targets, np.array([0.7, -1.2]), old, reference


def forecaster(**options):
    sizes = dict(context_length=5, horizon=2, percentiles="10,80", n_layers=2, n_heads=2, d_model=4,
                 d_hidden=5)
    return lambda rng, dtype: Forecaster(ForecasterConfig(
        **{**sizes, **options}, dtype=np.dtype(dtype).name), rng)


def series():
    rng = np.random.default_rng(7)
    return rng.standard_normal((2, 4)), rng.standard_normal((2, 4, 2))


WRONG = [((IDS[0],), ValueError, "(B, T)"), ((np.array([[7]]),), ValueError, "0 .. 6"),
         ((IDS / 1,), TypeError, "integers")]

MODELS = [
    Case("recurrent language model, rnn, dropout", recurrent(cell="rnn", dropout=0.3), [], seeded,
         ids=(IDS,), wrong=WRONG),
    Case("recurrent language model, lstm, untied", recurrent(cell="lstm", tied=False), [],
         ids=(IDS,)),
    Case("recurrent language model, gru", recurrent(cell="gru"), [], ids=(IDS,)),
    Case("convolution language model", convolution(n_layers=3, doublings=1), [], ids=(IDS,),
         wrong=WRONG),
    Case("convolution language model, dropout, untied",
         convolution(kernel_width=2, dropout=0.3, tied=False), [], seeded, ids=(IDS,)),
    Case("decoder classifier", classifier(), [], ids=(IDS,), batch=labelled,
         wrong=[*WRONG, ((IDS, np.array([3, 4])), ValueError, "1 .. T=3"),
                ((IDS, np.array([3])), ValueError, "B=2 whole numbers")]),
    Case("decoder classifier with the loss of the next token, dropout",
         trained_with(classifier(n_layers=1, dropout=0.2, positions="rotary", tied=False),
                      lm_weight=0.5, label_smoothing=0.1), [], seeded, ids=(IDS,),
         batch=labelled, wrong=WRONG),
    Case("policy decoder", policy(), [], ids=(IDS,), batch=answered, wrong=WRONG),
    Case("policy decoder, a mean over answers, with a penalty",
         trained_with(policy(positions="rotary", tied=False, dropout=0.2), beta=0.3,
                      normalization="sequence", clip_high=0.28), [], seeded, ids=(IDS,),
         batch=answered),
    Case("forecaster", forecaster(), [(2, 4)], batch=series,
         wrong=[((floats(4),), ValueError, "(B, T)"), ((floats(2, 6),), ValueError, "only 0 .. 4"),
                ((floats(2, 0),), ValueError, "at least one number"),
                ((IDS,), TypeError, "floats")]),
    Case("forecaster, rotary, post-norm, dropout",
         forecaster(n_layers=1, positions="rotary", norm_first=False, feedforward="swiglu",
                    bias=False, dropout=0.3), [(2, 4)], seeded, batch=series),
]
