"""Small encoder-decoders of transformers: (class, config) by name."""

from witness import VOCABULARY, torch, transformers as t

T5 = dict(vocab_size=VOCABULARY, d_model=12, d_kv=4, d_ff=10, num_layers=2, num_heads=3,
          relative_attention_num_buckets=8, relative_attention_max_distance=20, dropout_rate=0.0,
          decoder_start_token_id=0, eos_token_id=1, pad_token_id=0)
BART = dict(vocab_size=VOCABULARY, d_model=12, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=10,
            decoder_ffn_dim=10, max_position_embeddings=20, dropout=0.0, forced_eos_token_id=None)


def own_head(kind):
    """The constructor of a model whose head is no table of tokens: transformers ties it in a new
    model, but not where a file has both."""
    def construct(config):
        model = kind(config)
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        return model
    return construct


def t5(head=t.T5ForConditionalGeneration, **options):
    return head, t.T5Config(**{**T5, **options})


def flan(**options):
    return t5(own_head(t.T5ForConditionalGeneration), tie_word_embeddings=False,
              **{"feed_forward_proj": "gated-gelu", **options})


def bart(**options):
    return t.BartForConditionalGeneration, t.BartConfig(**{**BART, **options})


CASES = {
    "t5": t5,
    "t5-gelu": lambda: t5(feed_forward_proj="gelu"),
    "t5-more-decoder": lambda: t5(num_decoder_layers=3, layer_norm_epsilon=1e-3),
    "flan-t5": flan,
    "flan-t5-wide-heads": lambda: flan(d_kv=6, num_decoder_layers=1),
    "flan-t5-silu": lambda: flan(feed_forward_proj="gated-silu"),
    "flan-t5-one-table": lambda: t5(tie_word_embeddings=False, feed_forward_proj="gated-gelu"),
    "mt5": lambda: (own_head(t.MT5ForConditionalGeneration), t.MT5Config(**T5)),
    "bart": bart,
    "distilbart": lambda: bart(decoder_layers=1, scale_embedding=True,
                               activation_function="relu"),
    "mbart": lambda: (t.MBartForConditionalGeneration, t.MBartConfig(
        **BART, scale_embedding=True, decoder_start_token_id=2)),
}
