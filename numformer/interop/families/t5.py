"""T5 as first published, 1.0: one table of tokens, no gate in the feed-forward."""

from numformer.interop.family import Family
from numformer.interop.keys import IGNORED, Derived, Fixed, Option
from numformer.interop.operations import Times
from numformer.interop.table import Row, linear, norm
from numformer.models import T5 as OPTIONS


def _stack(config, ours, theirs, attentions):
    """The rows of the encoder or the decoder; the first block has the table of distances."""
    yield Row(f"{ours}blocks.0.attention.positions.weight",
              f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    for n in range(config.n_layers):
        block, layer = f"{ours}blocks.{n}", f"{theirs}.block.{n}.layer"
        for i, (attention, other) in enumerate(attentions):
            yield from norm(f"{block}.norm{i + 1}", f"{layer}.{i}.layer_norm", False)
            for name in ("query", "key", "value", "output"):
                yield from linear(f"{block}.{attention}.{name}", f"{layer}.{i}.{other}.{name[0]}",
                                  False)
        last = len(attentions)
        yield from norm(f"{block}.norm{last + 1}", f"{layer}.{last}.layer_norm", False)
        for name, other in (("hidden", "wi"), ("output", "wo")):
            yield from linear(f"{block}.feedforward.{name}",
                              f"{layer}.{last}.DenseReluDense.{other}", False)
    yield from norm(f"{ours}norm", f"{theirs}.final_layer_norm", False)


def _rows(config):
    # Theirs divides by sqrt(C) before the head, ours multiplies by it after the embedding
    yield Row("embedding.weight", "shared.weight", (Times(config.d_model ** -0.5),))
    attentions = ("attention", "SelfAttention"), ("cross_attention", "EncDecAttention")
    yield from _stack(config, "encoder.", "encoder", attentions[:1])
    yield from _stack(config, "", "decoder", attentions)


T5 = Family(
    name="t5", kind="EncoderDecoder", architectures=("T5ForConditionalGeneration",
                                                     "T5WithLMHeadModel", "T5Model"),
    options={**OPTIONS, "feedforward": "relu"},
    keys={
        "vocab_size": Option("vocab_size"), "n_positions": Option("context_length", 512),
        "d_model": Option("d_model"), "d_ff": Option("d_hidden"), "num_heads": Option("n_heads"),
        "num_layers": Option("n_layers"), "num_decoder_layers": Derived(lambda c: c.n_layers),
        "d_kv": Derived(lambda c: c.d_model // c.n_heads, 64),
        "relative_attention_num_buckets": Option("n_buckets", 32),
        "relative_attention_max_distance": Option("max_distance", 128),
        "dropout_rate": Option("dropout", 0.1), "layer_norm_epsilon": Option("epsilon", 1e-6),
        "feed_forward_proj": Option("feedforward", "relu", {"relu": "relu"}),
        "dense_act_fn": Fixed("relu"), "is_gated_act": Fixed(False), "is_decoder": Fixed(False),
        "is_encoder_decoder": Fixed(True), "tie_word_embeddings": Fixed(True),
        "scale_decoder_outputs": Fixed(True), "classifier_dropout": IGNORED},
    rows=_rows,
    copies=dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                          "lm_head.weight"), "shared.weight"))
