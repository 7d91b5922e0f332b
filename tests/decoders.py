"""Small decoders in the styles of the papers, which several tests share."""

from numformer.models import (
    GPT2, LLAMA, TRANSFORMER_2017, Decoder, DecoderConfig, NGramDecoder, NGramDecoderConfig)

SIZES = dict(n_layers=2, n_heads=2, d_model=16, dtype="float64")
STYLES = {
    "2017": DecoderConfig(vocab_size=9, context_length=8, **TRANSFORMER_2017, **SIZES),
    "GPT-2": DecoderConfig(**{**GPT2, "vocab_size": 9, "context_length": 8}, **SIZES),
    "LLaMA": DecoderConfig(**{**LLAMA, "vocab_size": 9, "context_length": 8}, **SIZES,
                           n_kv_heads=1),
    "alibi": DecoderConfig(vocab_size=9, context_length=8, positions="alibi", query_key_norm=True,
                           **SIZES),
    "n-grams": NGramDecoderConfig(vocab_size=9, context_length=8, ngrams=4, ngram_rows=200,
                                  feedforward="relu_squared", **SIZES),
}


def decoder_of(config, rng):
    """The decoder of a config in `STYLES`."""
    return (NGramDecoder if isinstance(config, NGramDecoderConfig) else Decoder)(config, rng)
