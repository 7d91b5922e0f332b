"""Pictures of the lecture notes that need no trained run: architectures, masks, positions."""

from functools import partial

import numpy as np

from numformer import plots
from numformer.analysis import attention_mask_of, attention_steps, model_sizes
from numformer.functional import (
    relu, relu_backward, sinusoidal_positions, swish, swish_backward)
from numformer.layers import LSTM, MultiHeadAttention
from numformer.models import (
    CONFIGS, VISION_CONFIGS, Bert, BertConfig, Decoder, DecoderConfig, EncoderDecoder,
    EncoderDecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig)

SENTENCE = ("the", "dog", "bites", "the", "man")
ORDER = (3, 4, 2, 0, 1)                                       # the man bites the dog
LABELLED = {
    "transformer-big": "right", "gpt1": "below", "bert-large": "above", "gpt2-xl": "above",
    "t5-small": "below", "t5-large": "right", "gpt3": "above",
    "vit-huge": "right", "llama-65b": "left", "llama-7b": "left", "mixtral-8x7b": "below",
    "llama3-405b": "above", "llama3-8b": "below", "modernbert-large": "left",
    "llama2-70b": "right", "bart-large": "right"}


def _masks(runs):
    """Those of an encoder, an encoder-decoder and a decoder, taken from the models' attention."""
    sizes, rng = dict(n_layers=1, n_heads=1, d_model=4, vocab_size=9), np.random.default_rng(0)
    own, inputs = np.arange(1, 6)[None], np.arange(1, 4)[None]
    bert = Bert(BertConfig(**sizes, context_length=8), rng)
    decoder = Decoder(DecoderConfig(**sizes, context_length=8), rng)
    both = EncoderDecoder(EncoderDecoderConfig(**sizes, context_length=8), rng)
    encoder, middle, last = "encoder (BERT)", "encoder-decoder (T5)", "decoder (GPT)"
    masks = {encoder: attention_mask_of(bert, own),
             middle: attention_mask_of(both, inputs, np.array([3]), own[:, :4]),
             last: attention_mask_of(decoder, own)}
    names = [f"x{k}" for k in range(1, 6)]
    tokens = {encoder: names, middle: names[:3] + [f"y{k}" for k in range(1, 5)], last: names}
    return plots.mask_panels(masks, tokens, {middle: 3})


def _permutation(runs):
    """One head over a sentence and over the same words in another order."""
    rng, C = np.random.default_rng(4), 6
    layer = MultiHeadAttention(C, 1, rng, bias=False, std=0.8, dtype=np.float64)
    words = {word: rng.standard_normal(C) for word in sorted(set(SENTENCE))}
    x = np.array([words[word] for word in SENTENCE])                  # (T, C)
    positions = sinusoidal_positions(np.arange(len(x)), C)
    order = list(ORDER)
    rows = [attention_steps(layer, each) for each in (
        x, x[order], x + positions, x[order] + positions)]
    return plots.permutation_panels(rows, list(SENTENCE), order)


def _unrolled(runs):
    config = RecurrentLanguageModelConfig(vocab_size=65, context_length=8, n_layers=1, d_model=64,
                                          cell="rnn")
    return plots.unrolled_rnn(RecurrentLanguageModel(config, rng=None))


def _swish(runs):
    """Swish from half of x to nearly ReLU, and ReLU."""
    curves = {f"Swish, beta = {beta:g}": (partial(swish, beta=beta), swish_backward)
              for beta in (0, 0.5, 1, 2, 5)}
    return plots.activation_curves({"ReLU": (relu, relu_backward), **curves},
                                   title="ReLU, and Swish over beta")


def _architecture(name, title):
    return lambda runs: plots.architecture_diagram((CONFIGS | VISION_CONFIGS)[name], title=title)


def _computation(runs):
    layer = MultiHeadAttention(8, 2, np.random.default_rng(0))
    return plots.computation_graph(layer, np.ones((1, 5, 8), np.float32))


# file: a function of the folder of runs
DECK = {
    "sinusoid_curves": lambda runs: plots.position_waves(),
    "unrolled_rnn": _unrolled,
    "lstm_cell": lambda runs: plots.lstm_cell_diagram(LSTM(64, 64, rng=None)),
    "swish": _swish,
    "masks": _masks,
    "model_sizes": lambda runs: plots.model_growth(model_sizes(), LABELLED),
    "permutation": _permutation,
    "architecture_2017": _architecture("transformer-base", "Transformer (2017), base"),
    "architecture_bert": _architecture("bert-base", "BERT base"),
    "architecture_gpt": _architecture("gpt2", "GPT-2"),
    "architecture_t5": _architecture("t5-small", "T5 small"),
    "architecture_vit": _architecture("vit-base", "ViT-B/16"),
    "block_backward": lambda runs: plots.architecture_diagram(
        CONFIGS["gpt2"], title="GPT-2", block=1, backward=True),
    "computation_attention": _computation,
}
