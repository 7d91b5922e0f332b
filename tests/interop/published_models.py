"""Files of published models, key by key and value by value, as public repositories quote them.

Sizes are the published ones; a test overrides them, and ids of special tokens, in `SMALL`. Where a
generation_config.json or a tokenizer_config.json is not quoted there, the model has none here.
"""


# https://huggingface.co/meta-llama, /Qwen, /HuggingFaceTB, /01-ai, /google, /EleutherAI, ...
LLAMA2 = dict(
    _name_or_path="meta-llama/Llama-2-7b-hf", architectures=["LlamaForCausalLM"], bos_token_id=1,
    eos_token_id=2, hidden_act="silu", hidden_size=4096, initializer_range=0.02,
    intermediate_size=11008, max_position_embeddings=4096, model_type="llama",
    num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32, pretraining_tp=1,
    rms_norm_eps=1e-05, rope_scaling=None, tie_word_embeddings=False, torch_dtype="float16",
    transformers_version="4.31.0.dev0", use_cache=True, vocab_size=32000)
LLAMA3 = dict(
    architectures=["LlamaForCausalLM"], attention_bias=False, attention_dropout=0.0,
    bos_token_id=128000, eos_token_id=128001, hidden_act="silu", hidden_size=4096,
    initializer_range=0.02, intermediate_size=14336, max_position_embeddings=8192,
    model_type="llama", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8,
    pretraining_tp=1, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=500000.0,
    tie_word_embeddings=False, torch_dtype="bfloat16", transformers_version="4.40.0.dev0",
    use_cache=True, vocab_size=128256)
SMOLLM2 = {
    "_name_or_path": "HuggingFaceTB/SmolLM2-135M", "architectures": ["LlamaForCausalLM"],
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
    "head_dim": 64, "hidden_act": "silu", "hidden_size": 576,
    "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": True,
    "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "llama",
    "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
    "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": False,
    "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "transformers_version": "4.42.3", "use_cache": True,
    "vocab_size": 49152, "transformers.js_config": {
        "kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}}}
YI = dict(
    LLAMA3, bos_token_id=1, eos_token_id=2, intermediate_size=11008, max_position_embeddings=4096,
    num_key_value_heads=4, pad_token_id=0, rms_norm_eps=1e-06, rope_theta=5000000.0,
    transformers_version="4.37.2", vocab_size=64000)
GPT2 = dict(
    activation_function="gelu_new", architectures=["GPT2LMHeadModel"], attn_pdrop=0.1,
    bos_token_id=50256, embd_pdrop=0.1, eos_token_id=50256, initializer_range=0.02,
    layer_norm_epsilon=1e-05, model_type="gpt2", n_ctx=1024, n_embd=768, n_head=12, n_layer=12,
    n_positions=1024, resid_pdrop=0.1, summary_activation=None, summary_first_dropout=0.1,
    summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True,
    task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}},
    vocab_size=50257)
DISTILGPT2 = dict(
    GPT2, _name_or_path="distilgpt2", _num_labels=1, gradient_checkpointing=False,
    id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0}, n_inner=None, n_layer=6, use_cache=True)
GPT1 = dict(
    afn="gelu", architectures=["OpenAIGPTLMHeadModel"], attn_pdrop=0.1, embd_pdrop=0.1,
    initializer_range=0.02, layer_norm_epsilon=1e-05, model_type="openai-gpt", n_ctx=512,
    n_embd=768, n_head=12, n_layer=12, n_positions=512, n_special=0, predict_special_tokens=True,
    resid_pdrop=0.1, summary_activation=None, summary_first_dropout=0.1,
    summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True,
    task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}},
    vocab_size=40478)
QWEN2 = dict(
    architectures=["Qwen2ForCausalLM"], attention_dropout=0.0, bos_token_id=151643,
    eos_token_id=151643, hidden_act="silu", hidden_size=3584, initializer_range=0.02,
    intermediate_size=18944, max_position_embeddings=131072, max_window_layers=28,
    model_type="qwen2", num_attention_heads=28, num_hidden_layers=28, num_key_value_heads=4,
    rms_norm_eps=1e-06, rope_theta=1000000.0, sliding_window=131072, tie_word_embeddings=False,
    torch_dtype="bfloat16", transformers_version="4.37.2", use_cache=True,
    use_sliding_window=False, vocab_size=152064)
QWEN3 = dict(
    architectures=["Qwen3ForCausalLM"], attention_bias=False, attention_dropout=0.0,
    bos_token_id=151643, eos_token_id=151645, head_dim=128, hidden_act="silu", hidden_size=1024,
    initializer_range=0.02, intermediate_size=3072, max_position_embeddings=40960,
    max_window_layers=28, model_type="qwen3", num_attention_heads=16, num_hidden_layers=28,
    num_key_value_heads=8, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=1000000,
    sliding_window=None, tie_word_embeddings=True, torch_dtype="bfloat16",
    transformers_version="4.51.0", use_cache=True, use_sliding_window=False, vocab_size=151936)
QWEN3_GENERATION = dict(
    bos_token_id=151643, do_sample=True, eos_token_id=[151645, 151643], pad_token_id=151643,
    temperature=0.6, top_k=20, top_p=0.95, transformers_version="4.51.0")
LLAMA31_GENERATION = dict(
    bos_token_id=128000, do_sample=True, eos_token_id=[128001, 128008, 128009], temperature=0.6,
    top_p=0.9, transformers_version="4.42.3")
MIXTRAL = dict(
    architectures=["MixtralForCausalLM"], attention_dropout=0.0, bos_token_id=1, eos_token_id=2,
    hidden_act="silu", hidden_size=4096, initializer_range=0.02, intermediate_size=14336,
    max_position_embeddings=32768, model_type="mixtral", num_attention_heads=32,
    num_experts_per_tok=2, num_hidden_layers=32, num_key_value_heads=8, num_local_experts=8,
    output_router_logits=False, rms_norm_eps=1e-05, rope_theta=1000000.0,
    router_aux_loss_coef=0.02, sliding_window=None, tie_word_embeddings=False,
    torch_dtype="bfloat16", transformers_version="4.36.0.dev0", use_cache=True, vocab_size=32000)
GEMMA2 = dict(
    architectures=["Gemma2ForCausalLM"], attention_bias=False, attention_dropout=0.0,
    attn_logit_softcapping=50.0, bos_token_id=2, cache_implementation="hybrid", eos_token_id=1,
    final_logit_softcapping=30.0, head_dim=256, hidden_act="gelu_pytorch_tanh",
    hidden_activation="gelu_pytorch_tanh", hidden_size=2304, initializer_range=0.02,
    intermediate_size=9216, max_position_embeddings=8192, model_type="gemma2",
    num_attention_heads=8, num_hidden_layers=26, num_key_value_heads=4, pad_token_id=0,
    query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_theta=10000.0, sliding_window=4096,
    torch_dtype="float32", transformers_version="4.42.4", use_cache=True, vocab_size=256000)
GEMMA2_9B = dict(
    GEMMA2, hidden_size=3584, intermediate_size=14336, num_attention_heads=16,
    num_hidden_layers=42, num_key_value_heads=8, sliding_window_size=4096,
    transformers_version="4.42.0.dev0")
GEMMA3 = dict(
    architectures=["Gemma3ForCausalLM"], attention_bias=False, attention_dropout=0.0,
    attn_logit_softcapping=None, bos_token_id=2, cache_implementation="hybrid",
    eos_token_id=[1, 106], final_logit_softcapping=None, head_dim=256,
    hidden_activation="gelu_pytorch_tanh", hidden_size=1152, initializer_range=0.02,
    intermediate_size=6912, max_position_embeddings=32768, model_type="gemma3_text",
    num_attention_heads=4, num_hidden_layers=26, num_key_value_heads=1, pad_token_id=0,
    query_pre_attn_scalar=256, rms_norm_eps=1e-06, rope_local_base_freq=10000, rope_scaling=None,
    rope_theta=1000000, sliding_window=512, sliding_window_pattern=6, torch_dtype="bfloat16",
    transformers_version="4.52.4", use_cache=True, vocab_size=262144)
PYTHIA = dict(
    _name_or_path="EleutherAI/pythia-6.9b-deduped", architectures=["GPTNeoXForCausalLM"],
    attention_bias=True, attention_dropout=0.0, bos_token_id=0, classifier_dropout=0.1,
    eos_token_id=0, hidden_act="gelu", hidden_dropout=0.0, hidden_size=4096,
    initializer_range=0.02, intermediate_size=16384, layer_norm_eps=1e-05,
    max_position_embeddings=2048, model_type="gpt_neox", num_attention_heads=32,
    num_hidden_layers=32, partial_rotary_factor=0.25, rope_scaling=None, rope_theta=10000,
    rotary_emb_base=10000, rotary_pct=0.25, tie_word_embeddings=False, torch_dtype="float16",
    transformers_version="4.45.2", use_cache=True, use_parallel_residual=True, vocab_size=50432)
H2OGPT = dict(
    _name_or_path="h2oai/h2ogpt-oasst1-512-12b", architectures=["GPTNeoXForCausalLM"],
    bos_token_id=0, classifier_dropout=0.1, custom_pipelines={"text-generation": {
        "impl": "h2oai_pipeline.H2OTextGenerationPipeline", "pt": "AutoModelForCausalLM"}},
    eos_token_id=0, hidden_act="gelu", hidden_size=5120, initializer_range=0.02,
    intermediate_size=20480, layer_norm_eps=1e-05, max_position_embeddings=2048,
    model_type="gpt_neox", num_attention_heads=40, num_hidden_layers=36, rotary_emb_base=10000,
    rotary_pct=0.25, tie_word_embeddings=False, torch_dtype="float16",
    transformers_version="4.30.0.dev0", use_cache=True, use_parallel_residual=True,
    vocab_size=50688)
BLOOM = dict(
    apply_residual_connection_post_layernorm=False, architectures=["BloomForCausalLM"],
    attention_dropout=0.0, attention_softmax_in_fp32=True, bias_dropout_fusion=True,
    bos_token_id=1, eos_token_id=2, hidden_dropout=0.0, hidden_size=14336,
    initializer_range=0.02, layer_norm_epsilon=1e-05, masked_softmax_fusion=True,
    model_type="bloom", n_head=112, n_inner=None, n_layer=70, offset_alibi=100, pad_token_id=3,
    pretraining_tp=1, skip_bias_add=True, skip_bias_add_qkv=False, slow_but_exact=False,
    transformers_version="4.22.2", unk_token_id=0, use_cache=True, vocab_size=250880)
BLOOMZ_560M = dict(
    architectures=["BloomForCausalLM"], model_type="bloom", n_embed=1024, n_layer=24,
    num_attention_heads=16, seq_length=2048, vocab_size=250880, unk_token_id=0, bos_token_id=1,
    eos_token_id=2, pad_token_id=3, use_cache=True)
BERT = dict(
    architectures=["BertForMaskedLM"], attention_probs_dropout_prob=0.1,
    gradient_checkpointing=False, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=768,
    initializer_range=0.02, intermediate_size=3072, layer_norm_eps=1e-12,
    max_position_embeddings=512, model_type="bert", num_attention_heads=12, num_hidden_layers=12,
    pad_token_id=0, position_embedding_type="absolute", transformers_version="4.6.0.dev0",
    type_vocab_size=2, use_cache=True, vocab_size=30522)
BERT_LARGE = dict(BERT, hidden_size=1024, intermediate_size=4096, num_attention_heads=16,
                  num_hidden_layers=24)
ROBERTA = dict(
    BERT, architectures=["RobertaForMaskedLM"], bos_token_id=0, classifier_dropout=None,
    eos_token_id=2, layer_norm_eps=1e-05, max_position_embeddings=514, model_type="roberta",
    pad_token_id=1, transformers_version="4.52.3", type_vocab_size=1, vocab_size=50265)
DISTILBERT = dict(
    activation="gelu", architectures=["DistilBertForMaskedLM"], attention_dropout=0.1, dim=768,
    dropout=0.1, hidden_dim=3072, initializer_range=0.02, max_position_embeddings=512,
    model_type="distilbert", n_heads=12, n_layers=6, pad_token_id=0, qa_dropout=0.1,
    seq_classif_dropout=0.2, sinusoidal_pos_embds=False, tie_weights_=True,
    transformers_version="4.18.0", vocab_size=30522)
MINILM = dict(
    BERT, _name_or_path="nreimers/MiniLM-L6-H384-uncased", architectures=["BertModel"],
    hidden_size=384, intermediate_size=1536, num_hidden_layers=6, transformers_version="4.8.2")
T5 = dict(
    architectures=["T5ForConditionalGeneration"], d_ff=2048, d_kv=64, d_model=512,
    decoder_start_token_id=0, dropout_rate=0.1, eos_token_id=1, initializer_factor=1.0,
    is_encoder_decoder=True, layer_norm_epsilon=1e-06, model_type="t5", n_positions=512,
    num_heads=8, num_layers=6, output_past=True, pad_token_id=0,
    relative_attention_num_buckets=32, task_specific_params={"translation_en_to_de": {
        "early_stopping": True, "max_length": 300, "num_beams": 4,
        "prefix": "translate English to German: "}}, vocab_size=32128)
BYT5 = dict(
    _name_or_path="google/byt5-large", architectures=["T5ForConditionalGeneration"], d_ff=3840,
    d_kv=64, d_model=1536, decoder_start_token_id=0, dropout_rate=0.1, eos_token_id=1,
    feed_forward_proj="gated-gelu", gradient_checkpointing=False, initializer_factor=1.0,
    is_encoder_decoder=True, layer_norm_epsilon=1e-06, model_type="t5", num_decoder_layers=12,
    num_heads=16, num_layers=36, output_past=True, pad_token_id=0,
    relative_attention_num_buckets=32, tie_word_embeddings=False, tokenizer_class="ByT5Tokenizer",
    transformers_version="4.12.5", use_cache=True, vocab_size=384)
MT5 = dict(
    _name_or_path="google/mt5-small", architectures=["MT5ForConditionalGeneration"], d_ff=1024,
    d_kv=64, d_model=512, decoder_start_token_id=0, dense_act_fn="gelu_new", dropout_rate=0.1,
    eos_token_id=1, feed_forward_proj="gated-gelu", initializer_factor=1.0,
    is_encoder_decoder=True, is_gated_act=True, layer_norm_epsilon=1e-06, model_type="mt5",
    num_decoder_layers=8, num_heads=6, num_layers=8, pad_token_id=0,
    relative_attention_max_distance=128, relative_attention_num_buckets=32,
    tie_word_embeddings=False, tokenizer_class="T5Tokenizer", torch_dtype="float32",
    transformers_version="4.24.0", use_cache=True, vocab_size=250112)
MT5_BASE = dict(
    MT5, _name_or_path="google/mt5-base", d_ff=2048, d_model=768,
    num_decoder_layers=12, num_heads=12, num_layers=12, output_past=True,
    transformers_version="4.10.0.dev0")
MISTRAL = dict(
    architectures=["MistralForCausalLM"], attention_dropout=0.0, bos_token_id=1, eos_token_id=2,
    hidden_act="silu", hidden_size=4096, initializer_range=0.02, intermediate_size=14336,
    max_position_embeddings=32768, model_type="mistral", num_attention_heads=32,
    num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-05, rope_theta=10000.0,
    sliding_window=4096, tie_word_embeddings=False, use_cache=True, vocab_size=32000)
OPT = dict(
    _name_or_path="facebook/opt-125m", activation_dropout=0.0, activation_function="relu",
    architectures=["OPTForCausalLM"], attention_dropout=0.0, bos_token_id=2,
    do_layer_norm_before=True, dropout=0.1, eos_token_id=2, ffn_dim=3072, hidden_size=768,
    init_std=0.02, layerdrop=0.0, max_position_embeddings=2048, model_type="opt",
    num_attention_heads=12, num_hidden_layers=12, pad_token_id=1, prefix="</s>",
    torch_dtype="float16", transformers_version="4.21.0.dev0", use_cache=True, vocab_size=50272,
    word_embed_proj_dim=768)
TINY_STORIES = dict(
    activation_function="gelu_new", architectures=["GPTNeoForCausalLM"], attention_dropout=0,
    attention_layers=["global", "local"] * 4, attention_types=[[["global", "local"], 4]],
    bos_token_id=50256, embed_dropout=0, eos_token_id=50256, gradient_checkpointing=False,
    hidden_size=64, initializer_range=0.02, intermediate_size=None, layer_norm_epsilon=1e-05,
    max_position_embeddings=2048, model_type="gpt_neo", num_heads=16, num_layers=8,
    resid_dropout=0, summary_activation=None, summary_first_dropout=0.1,
    summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True,
    torch_dtype="float32", transformers_version="4.28.1", use_cache=True, vocab_size=50257,
    window_size=256)
MPT = dict(
    architectures=["MPTForCausalLM"], attn_config=dict(
        alibi=True, alibi_bias_max=8, attn_impl="torch", attn_pdrop=0,
        attn_type="multihead_attention", attn_uses_sequence_id=False, clip_qkv=None,
        prefix_lm=False, qk_ln=False, softmax_scale=None),
    auto_map={"AutoConfig": "configuration_mpt.MPTConfig",
              "AutoModelForCausalLM": "modeling_mpt.MPTForCausalLM"},
    d_model=4096, emb_pdrop=0, embedding_fraction=1.0, expansion_ratio=4, init_config=dict(
        emb_init_std=None, emb_init_uniform_lim=None, fan_mode="fan_in",
        init_div_is_residual=True, init_gain=0, init_nonlinearity="relu", init_std=0.02,
        name="kaiming_normal_", verbose=0),
    init_device="cpu", learned_pos_emb=True, logit_scale=None, max_seq_len=2048,
    model_type="mpt", n_heads=32, n_layers=32, no_bias=True, norm_type="low_precision_layernorm",
    resid_pdrop=0, tokenizer_name="EleutherAI/gpt-neox-20b", torch_dtype="bfloat16",
    transformers_version="4.28.1", use_cache=False, verbose=0, vocab_size=50432)
STARCODER2 = dict(
    _name_or_path="/aot/checkpoints/15b/config.json", architectures=["Starcoder2ForCausalLM"],
    attention_dropout=0.0, bos_token_id=0, eos_token_id=0, hidden_act="gelu_pytorch_tanh",
    hidden_size=6144, initializer_range=0.01275, intermediate_size=24576,
    max_position_embeddings=16384, mlp_type="default", model_type="starcoder2",
    norm_epsilon=1e-05, norm_type="layer_norm", num_attention_heads=48, num_hidden_layers=40,
    num_key_value_heads=4, rms_norm_eps=1e-05, rope_theta=100000, sliding_window=4096,
    tie_word_embeddings=False, torch_dtype="float32", transformers_version="4.37.0.dev0",
    use_bias=True, use_cache=True, vocab_size=49152)
PHI3 = dict(
    _name_or_path="Phi-3-mini-4k-instruct", architectures=["Phi3ForCausalLM"],
    attention_bias=False, attention_dropout=0.0,
    auto_map={"AutoConfig": "configuration_phi3.Phi3Config",
              "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
    bos_token_id=1, embd_pdrop=0.0, eos_token_id=32000, hidden_act="silu", hidden_size=3072,
    initializer_range=0.02, intermediate_size=8192, max_position_embeddings=4096,
    model_type="phi3", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32,
    original_max_position_embeddings=4096, pad_token_id=32000, resid_pdrop=0.0,
    rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000.0, sliding_window=2047,
    tie_word_embeddings=False, torch_dtype="bfloat16", transformers_version="4.40.2",
    use_cache=True, vocab_size=32064)
QWEN3_MOE = dict(
    architectures=["Qwen3MoeForCausalLM"], attention_bias=False, attention_dropout=0.0,
    bos_token_id=151643, decoder_sparse_step=1, eos_token_id=151645, head_dim=128,
    hidden_act="silu", hidden_size=2048, initializer_range=0.02, intermediate_size=6144,
    max_position_embeddings=262144, max_window_layers=48, mlp_only_layers=[],
    model_type="qwen3_moe", moe_intermediate_size=768, norm_topk_prob=True,
    num_attention_heads=32, num_experts_per_tok=8, num_hidden_layers=48, num_key_value_heads=4,
    num_local_experts=128, output_router_logits=False, pad_token_id=None, rms_norm_eps=1e-06,
    rope_parameters={"rope_theta": 10000000, "rope_type": "default"}, router_aux_loss_coef=0.001,
    sliding_window=None, tie_word_embeddings=False, transformers_version="5.7.0", use_cache=True,
    use_sliding_window=False, vocab_size=151936)
SST2 = dict(
    activation="gelu", architectures=["DistilBertForSequenceClassification"],
    attention_dropout=0.1, dim=768, dropout=0.1, finetuning_task="sst-2", hidden_dim=3072,
    id2label={"0": "NEGATIVE", "1": "POSITIVE"}, initializer_range=0.02,
    label2id={"NEGATIVE": 0, "POSITIVE": 1}, max_position_embeddings=512,
    model_type="distilbert", n_heads=12, n_layers=6, output_past=True, pad_token_id=0,
    qa_dropout=0.1, seq_classif_dropout=0.2, sinusoidal_pos_embds=False, tie_weights_=True,
    transformers_version="4.11.2", vocab_size=30522)
ENTITIES = ("O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")
CONLL = dict(
    _name_or_path="dbmdz/bert-large-cased-finetuned-conll03-english", _num_labels=9,
    add_cross_attention=False, architectures=["BertForTokenClassification"],
    attention_probs_dropout_prob=0.1, bad_words_ids=None, bos_token_id=None,
    chunk_size_feed_forward=0, decoder_start_token_id=None, directionality="bidi",
    diversity_penalty=0, do_sample=False, early_stopping=False, encoder_no_repeat_ngram_size=0,
    eos_token_id=None, finetuning_task=None, forced_bos_token_id=None, forced_eos_token_id=None,
    gradient_checkpointing=False, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=1024,
    id2label={str(n): name for n, name in enumerate(ENTITIES)}, initializer_range=0.02,
    intermediate_size=4096, is_decoder=False, is_encoder_decoder=False,
    label2id={name: n for n, name in enumerate(ENTITIES)}, layer_norm_eps=1e-12,
    length_penalty=1, max_length=20, max_position_embeddings=512, min_length=0,
    model_type="bert", no_repeat_ngram_size=0, num_attention_heads=16, num_beam_groups=1,
    num_beams=1, num_hidden_layers=24, num_return_sequences=1, output_attentions=False,
    output_hidden_states=False, output_scores=False, pad_token_id=0, pooler_fc_size=768,
    pooler_num_attention_heads=12, pooler_num_fc_layers=3, pooler_size_per_head=128,
    pooler_type="first_token_transform", position_embedding_type="absolute", prefix=None,
    problem_type=None, pruned_heads={}, remove_invalid_values=False, repetition_penalty=1,
    return_dict=True, return_dict_in_generate=False, sep_token_id=None,
    task_specific_params=None, temperature=1, tie_encoder_decoder=False,
    tie_word_embeddings=True, tokenizer_class=None, top_k=50, top_p=1, torchscript=False,
    transformers_version="4.6.1", type_vocab_size=2, use_bfloat16=False, use_cache=True,
    vocab_size=28996)
SQUAD = dict(
    architectures=["BertForQuestionAnswering"], attention_probs_dropout_prob=0.1,
    hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=1024, initializer_range=0.02,
    intermediate_size=4096, layer_norm_eps=1e-12, max_position_embeddings=512, model_type="bert",
    num_attention_heads=16, num_hidden_layers=24, pad_token_id=0, type_vocab_size=2,
    vocab_size=30522)
SQUAD2 = dict(
    _name_or_path="../saved_models/farm_roberta-large-squad2/language_model.bin",
    architectures=["RobertaForQuestionAnswering"], attention_probs_dropout_prob=0.1,
    bos_token_id=0, eos_token_id=2, gradient_checkpointing=False, hidden_act="gelu",
    hidden_dropout_prob=0.1, hidden_size=1024, initializer_range=0.02, intermediate_size=4096,
    language="english", layer_norm_eps=1e-05, max_position_embeddings=514, model_type="roberta",
    name="Roberta", num_attention_heads=16, num_hidden_layers=24, pad_token_id=1,
    position_embedding_type="absolute", type_vocab_size=1, vocab_size=50265)
FORMALITY = dict(
    architectures=["XLMRobertaForSequenceClassification"], attention_probs_dropout_prob=0.1,
    bos_token_id=0, classifier_dropout=None, eos_token_id=2, hidden_act="gelu",
    hidden_dropout_prob=0.1, hidden_size=768, id2label={"0": "formal", "1": "informal"},
    initializer_range=0.02, intermediate_size=3072, label2id={"formal": 0, "informal": 1},
    layer_norm_eps=1e-05, max_position_embeddings=514, model_type="xlm-roberta",
    num_attention_heads=12, num_hidden_layers=12, output_past=True, pad_token_id=1,
    position_embedding_type="absolute", problem_type="single_label_classification",
    torch_dtype="float32", transformers_version="4.52.1", type_vocab_size=1, use_cache=True,
    vocab_size=250002)
EMOTIONS = """Emo Comportementale Designee Montree Suggeree Base Complexe Admiration Autre Colere
    Culpabilite Degout Embarras Fierte Jalousie Joie Peur Surprise Tristesse""".split()
EMO_TEXT_TO_KIDS = dict(
    add_cross_attention=False, architectures=["CamembertForSequenceClassification"],
    attention_probs_dropout_prob=0.1, bos_token_id=5, classifier_dropout=None, dtype="float32",
    eos_token_id=6, hidden_act="gelu", hidden_dropout_prob=0.1, hidden_size=768,
    id2label={str(n): name for n, name in enumerate(EMOTIONS)}, initializer_range=0.02,
    intermediate_size=3072, is_decoder=False,
    label2id={name: n for n, name in enumerate(EMOTIONS)}, layer_norm_eps=1e-05,
    max_position_embeddings=514, model_type="camembert", num_attention_heads=12,
    num_hidden_layers=12, output_past=True, pad_token_id=1, position_embedding_type="absolute",
    problem_type="multi_label_classification", transformers_version="5.0.0", type_vocab_size=1,
    use_cache=True, vocab_size=32005)
ZERO_SHOT = dict(
    _name_or_path="answerdotai/ModernBERT-large",
    architectures=["ModernBertForSequenceClassification"], attention_bias=False,
    attention_dropout=0.0, bos_token_id=50281, classifier_activation="gelu",
    classifier_bias=False, classifier_dropout=0.0, classifier_pooling="mean",
    cls_token_id=50281, decoder_bias=True, deterministic_flash_attn=False,
    embedding_dropout=0.0, eos_token_id=50282, global_attn_every_n_layers=3,
    global_rope_theta=160000.0, gradient_checkpointing=False, hidden_activation="gelu",
    hidden_size=1024, id2label={"0": "entailment", "1": "not_entailment"},
    initializer_cutoff_factor=2.0, initializer_range=0.02, intermediate_size=2624,
    label2id={"entailment": 0, "not_entailment": 1}, layer_norm_eps=1e-05, local_attention=128,
    local_rope_theta=10000.0, max_position_embeddings=8192, mlp_bias=False, mlp_dropout=0.0,
    model_type="modernbert", norm_bias=False, norm_eps=1e-05, num_attention_heads=16,
    num_hidden_layers=28, pad_token_id=50283, position_embedding_type="absolute",
    problem_type="single_label_classification", reference_compile=True, sep_token_id=50282,
    sparse_pred_ignore_index=-100, sparse_prediction=False, torch_dtype="bfloat16",
    transformers_version="4.48.0.dev0", vocab_size=50368)

# (config.json, generation_config.json, the tokenizer has BOS before a text)
DECODERS = {
    "Llama-2-7b": (LLAMA2, None, True), "Meta-Llama-3-8B": (LLAMA3, LLAMA31_GENERATION, True),
    "SmolLM2-135M-Instruct": (SMOLLM2, dict(
        _from_model_config=True, bos_token_id=1, eos_token_id=2, pad_token_id=2,
        transformers_version="4.42.3"), False),
    "Yi-1.5-6B": (YI, None, False), "gpt2": (GPT2, None, False),
    "distilgpt2": (DISTILGPT2, None, False), "openai-gpt": (GPT1, None, False),
    "Qwen2-7B": (QWEN2, None, False), "Qwen3-0.6B": (QWEN3, QWEN3_GENERATION, False),
    "Mixtral-8x7B": (MIXTRAL, None, True), "gemma-2-2b": (GEMMA2, None, True),
    "gemma-2-9b": (GEMMA2_9B, None, True), "gemma-3-1b-it": (GEMMA3, None, True),
    "pythia-6.9b": (PYTHIA, None, False), "h2ogpt-12b": (H2OGPT, None, False),
    "bloom": (BLOOM, None, False), "bloomz-560m": (BLOOMZ_560M, None, False),
    "Mistral-7B-v0.1": (MISTRAL, None, True), "opt-125m": (OPT, None, True),
    "TinyStories-1M": (TINY_STORIES, None, False), "mpt-7b-instruct": (MPT, None, False),
    "starcoder2-15b": (STARCODER2, None, False),
    "Phi-3-mini-4k-instruct": (PHI3, None, True),
    "Qwen3-30B-A3B-Thinking-2507": (QWEN3_MOE, None, False)}
ENCODERS = {"bert-base-uncased": BERT, "bert-large-uncased": BERT_LARGE, "roberta-base": ROBERTA,
            "distilbert-base-uncased": DISTILBERT}
ENCODER_DECODERS = {"t5-small": T5, "byt5-large": BYT5, "mt5-small": MT5, "mt5-base": MT5_BASE}
FINE_TUNED = {
    "distilbert-base-uncased-finetuned-sst-2-english": SST2,
    "bert-large-cased-finetuned-conll03-english": CONLL,
    "bert-large-uncased-whole-word-masking-finetuned-squad": SQUAD,
    "roberta-large-squad2": SQUAD2, "xlmr_formality_classifier": FORMALITY,
    "CamemBERT-base-EmoTextToKids": EMO_TEXT_TO_KIDS,
    "ModernBERT-large-zeroshot-v2.0": ZERO_SHOT}
# Keys that the class of a model does not declare, and no code reads
UNDECLARED = {"h2ogpt-12b": ["custom_pipelines"], "roberta-large-squad2": ["language", "name"]}
ALL = {**{name: files[0] for name, files in DECODERS.items()}, **ENCODERS, **ENCODER_DECODERS,
       **FINE_TUNED, "all-MiniLM-L6-v2": MINILM}

# What a test overrides, of the keys that a config has
SMALL = dict(
    hidden_size=16, intermediate_size=24, max_position_embeddings=64, num_attention_heads=4,
    num_hidden_layers=2, num_key_value_heads=2, head_dim=4, n_embd=16, n_embed=16, n_head=4,
    n_layer=2, n_positions=64, n_ctx=64, num_local_experts=3, query_pre_attn_scalar=5, dim=16,
    n_heads=4, n_layers=2, hidden_dim=24, d_model=16, d_ff=24, d_kv=4, num_heads=4, num_layers=2,
    num_decoder_layers=2, sliding_window=5, seq_length=64, rotary_pct=0.5,
    partial_rotary_factor=0.5, ffn_dim=24, word_embed_proj_dim=16, max_seq_len=64, window_size=5,
    moe_intermediate_size=12, num_experts_per_tok=2, local_attention=6,
    attention_types=[[["global", "local"], 1]], attention_layers=["global", "local"])


def small(config, **more):
    """A published config.json with the sizes of a test, and no key more or less."""
    sizes = {key: value for key, value in SMALL.items() if config.get(key) is not None}
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert"):
        sizes["max_position_embeddings"] += 2
    return config | sizes | {key: value for key, value in more.items() if key in config}
