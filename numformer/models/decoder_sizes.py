"""The published decoders: each paper's options, and the sizes that it names."""

from numformer.models.decoder import DecoderConfig

# Each paper's options; Mixtral's rotary base is that of its code.
TRANSFORMER_2017 = dict(norm_first=False, feedforward="relu", positions="sinusoidal",
                        embedding_scale=True)
GPT1 = dict(vocab_size=40478, context_length=512, norm_first=False)
GPT2 = dict(vocab_size=50257, context_length=1024)
GPT3 = dict(vocab_size=50257, context_length=2048)
LLAMA = dict(vocab_size=32000, context_length=2048, norm="rms_norm", feedforward="swiglu",
             positions="rotary", bias=False, tied=False, epsilon=1e-6)
LLAMA2 = {**LLAMA, "context_length": 4096, "epsilon": 1e-5}
LLAMA3 = {**LLAMA2, "vocab_size": 128256, "context_length": 8192, "rotary_base": 500000.0}
MIXTRAL = {**LLAMA2, "context_length": 32768, "rotary_base": 1000000.0, "n_experts": 8,
           "experts_per_token": 2}

_SIZES = (                                                    # L, H, C; F and G where they differ
    # Radford et al. (2018), section 4.1
    ("gpt1", GPT1, 12, 12, 768),
    # Radford et al. (2019), table 2, whose parameter counts of the small ones are known misprints
    ("gpt2", GPT2, 12, 12, 768), ("gpt2-medium", GPT2, 24, 16, 1024),
    ("gpt2-large", GPT2, 36, 20, 1280), ("gpt2-xl", GPT2, 48, 25, 1600),
    # Brown et al. (2020), table 2.1 (H of XL, C of 13B corrected); here no layer is sparse
    ("gpt3-small", GPT3, 12, 12, 768), ("gpt3-medium", GPT3, 24, 16, 1024),
    ("gpt3-large", GPT3, 24, 16, 1536), ("gpt3-xl", GPT3, 24, 16, 2048),
    ("gpt3-2.7b", GPT3, 32, 32, 2560), ("gpt3-6.7b", GPT3, 32, 32, 4096),
    ("gpt3-13b", GPT3, 40, 40, 5120), ("gpt3", GPT3, 96, 96, 12288),
    # Touvron et al. (2023), "LLaMA", table 2
    ("llama-7b", LLAMA, 32, 32, 4096, 11008), ("llama-13b", LLAMA, 40, 40, 5120, 13824),
    ("llama-33b", LLAMA, 60, 52, 6656, 17920), ("llama-65b", LLAMA, 80, 64, 8192, 22016),
    # Touvron et al. (2023), "Llama 2", table 1
    ("llama2-7b", LLAMA2, 32, 32, 4096, 11008), ("llama2-13b", LLAMA2, 40, 40, 5120, 13824),
    ("llama2-70b", LLAMA2, 80, 64, 8192, 28672, 8),
    # Grattafiori et al. (2024), "The Llama 3 Herd of Models", table 3
    ("llama3-8b", LLAMA3, 32, 32, 4096, 14336, 8), ("llama3-70b", LLAMA3, 80, 64, 8192, 28672, 8),
    ("llama3-405b", LLAMA3, 126, 128, 16384, 53248, 8),
    # Jiang et al. (2024), "Mixtral of Experts", table 1: 13 B of 47 B parameters are active
    ("mixtral-8x7b", MIXTRAL, 32, 32, 4096, 14336, 8))
_NAMES = "n_layers", "n_heads", "d_model", "d_hidden", "n_kv_heads"
DECODERS = {name: DecoderConfig(**choices, **dict(zip(_NAMES, sizes)))
            for name, choices, *sizes in _SIZES}
