"""Small decoders of transformers, one or more of each family: (class, config) by name."""

from witness import VOCABULARY, transformers as t

GPT = dict(vocab_size=VOCABULARY, n_positions=20, n_embd=12, n_layer=2, n_head=3, resid_pdrop=0.0,
           embd_pdrop=0.0, attn_pdrop=0.0)
LLAMA = dict(vocab_size=VOCABULARY, max_position_embeddings=20, hidden_size=16,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=24, bos_token_id=None, eos_token_id=None)
NEOX = dict(vocab_size=VOCABULARY, max_position_embeddings=20, hidden_size=16, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=24, bos_token_id=None, eos_token_id=None)
BLOOM = dict(vocab_size=VOCABULARY, hidden_size=12, bos_token_id=None, eos_token_id=None)
GEMMA = dict(LLAMA, head_dim=6, pad_token_id=None)
GEMMA2 = dict(GEMMA, num_hidden_layers=3, query_pre_attn_scalar=7, sliding_window=3)
OPT = dict(vocab_size=VOCABULARY, max_position_embeddings=20, hidden_size=12, num_hidden_layers=2,
           num_attention_heads=3, ffn_dim=20, dropout=0.0, pad_token_id=None, bos_token_id=None,
           eos_token_id=None)
NEO = dict(vocab_size=VOCABULARY, max_position_embeddings=20, hidden_size=12, num_heads=3,
           bos_token_id=None, eos_token_id=None)
MPT = dict(vocab_size=VOCABULARY, max_seq_len=20, d_model=12, n_layers=2)
EXPERTS = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=10)


def llama(**scaling):
    return t.LlamaForCausalLM, t.LlamaConfig(**LLAMA, rope_parameters=scaling)


CASES = {
    "gpt2": lambda: (t.GPT2LMHeadModel, t.GPT2Config(**GPT)),
    "gpt2-other": lambda: (t.GPT2LMHeadModel, t.GPT2Config(
        **GPT, n_inner=10, activation_function="relu", scale_attn_weights=False,
        layer_norm_epsilon=1e-3)),
    "gpt1": lambda: (t.OpenAIGPTLMHeadModel, t.OpenAIGPTConfig(**GPT)),
    "llama": lambda: (t.LlamaForCausalLM, t.LlamaConfig(**LLAMA)),
    "llama-tied": lambda: (t.LlamaForCausalLM, t.LlamaConfig(
        **LLAMA, tie_word_embeddings=True, rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0})),
    "llama-wide-heads": lambda: (t.LlamaForCausalLM, t.LlamaConfig(**LLAMA, head_dim=6)),
    "llama-linear": lambda: llama(rope_type="linear", factor=3.0, rope_theta=100.0),
    "llama3": lambda: llama(rope_type="llama3", factor=8.0, low_freq_factor=0.5, rope_theta=50.0,
                            high_freq_factor=3.0, original_max_position_embeddings=16),
    "llama-yarn": lambda: llama(rope_type="yarn", factor=4.0, rope_theta=50.0, beta_fast=4.0,
                                original_max_position_embeddings=16),
    "llama-yarn-factor": lambda: llama(rope_type="yarn", factor=4.0, rope_theta=50.0,
                                       truncate=False, attention_factor=1.3),
    "mistral": lambda: (t.MistralForCausalLM, t.MistralConfig(**LLAMA, sliding_window=None)),
    # 3 heads of 6 for a width of 20: C / H is 6 and a part
    "mistral-heads-of-another-sum": lambda: (t.MistralForCausalLM, t.MistralConfig(
        **{**LLAMA, "hidden_size": 20, "num_attention_heads": 3, "num_key_value_heads": 1},
        head_dim=6, sliding_window=None)),
    "mistral-window": lambda: (t.MistralForCausalLM, t.MistralConfig(**LLAMA, sliding_window=3)),
    "qwen2": lambda: (t.Qwen2ForCausalLM, t.Qwen2Config(**LLAMA)),
    "qwen2-tied": lambda: (t.Qwen2ForCausalLM, t.Qwen2Config(**LLAMA, tie_word_embeddings=True)),
    "qwen3": lambda: (t.Qwen3ForCausalLM, t.Qwen3Config(**LLAMA, head_dim=4, rms_norm_eps=1e-3)),
    "qwen3-wide-heads": lambda: (t.Qwen3ForCausalLM, t.Qwen3Config(**LLAMA, head_dim=6)),
    "mixtral": lambda: (t.MixtralForCausalLM, t.MixtralConfig(
        **LLAMA, num_local_experts=3, num_experts_per_tok=2)),
    "mixtral-window": lambda: (t.MixtralForCausalLM, t.MixtralConfig(
        **LLAMA, num_local_experts=3, num_experts_per_tok=2, sliding_window=3)),
    "pythia": lambda: (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(**NEOX)),
    "gpt-neox-one-by-one": lambda: (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(
        **NEOX, use_parallel_residual=False, rotary_pct=1.0, rotary_emb_base=500,
        hidden_act="gelu_new", layer_norm_eps=1e-3, tie_word_embeddings=True)),
    "bloom": lambda: (t.BloomForCausalLM, t.BloomConfig(**BLOOM, n_layer=2, n_head=2)),
    "bloom-3-heads": lambda: (t.BloomForCausalLM, t.BloomConfig(
        **BLOOM, n_layer=3, n_head=3, layer_norm_epsilon=1e-3)),
    "gemma": lambda: (t.GemmaForCausalLM, t.GemmaConfig(**GEMMA)),
    "gemma2": lambda: (t.Gemma2ForCausalLM, t.Gemma2Config(
        **GEMMA2, attn_logit_softcapping=1.5, final_logit_softcapping=2.0)),
    "gemma2-plain": lambda: (t.Gemma2ForCausalLM, t.Gemma2Config(
        **GEMMA2, attn_logit_softcapping=None, final_logit_softcapping=None,
        layer_types=["full_attention"] * 3)),
    "gemma3": lambda: (t.Gemma3ForCausalLM, t.Gemma3TextConfig(
        **GEMMA2, layer_types=[f"{kind}_attention" for kind in ("sliding", "sliding", "full")],
        rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=20.0),
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000.0)))),
    "gemma3-local": lambda: (t.Gemma3ForCausalLM, t.Gemma3TextConfig(**GEMMA2)),
    "opt": lambda: (t.OPTForCausalLM, t.OPTConfig(**OPT)),
    "opt-post-norm": lambda: (t.OPTForCausalLM, t.OPTConfig(
        **{**OPT, "ffn_dim": 28}, do_layer_norm_before=False, activation_function="gelu")),
    "gpt-neo": lambda: (t.GPTNeoForCausalLM, t.GPTNeoConfig(
        **NEO, num_layers=4, attention_types=[[["global", "local"], 2]], window_size=3)),
    "gpt-neo-global": lambda: (t.GPTNeoForCausalLM, t.GPTNeoConfig(
        **NEO, num_layers=2, attention_types=[[["global"], 2]], intermediate_size=10,
        activation_function="relu", layer_norm_epsilon=1e-3)),
    "mpt": lambda: (t.MptForCausalLM, t.MptConfig(**MPT, n_heads=2)),
    "mpt-3-heads": lambda: (t.MptForCausalLM, t.MptConfig(
        **MPT, n_heads=3, layer_norm_epsilon=1e-3)),
    "starcoder2": lambda: (t.Starcoder2ForCausalLM, t.Starcoder2Config(**LLAMA)),
    "starcoder2-window": lambda: (t.Starcoder2ForCausalLM, t.Starcoder2Config(
        **LLAMA, sliding_window=3, tie_word_embeddings=False, norm_epsilon=1e-3)),
    "phi3": lambda: (t.Phi3ForCausalLM, t.Phi3Config(**LLAMA, pad_token_id=None)),
    "phi3-window": lambda: (t.Phi3ForCausalLM, t.Phi3Config(
        **LLAMA, pad_token_id=None, sliding_window=3, tie_word_embeddings=True)),
    "qwen3-moe": lambda: (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(
        **LLAMA, **EXPERTS, norm_topk_prob=True)),
    "qwen3-moe-gates-over-all": lambda: (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(
        **LLAMA, **EXPERTS, head_dim=6, norm_topk_prob=False)),
}
