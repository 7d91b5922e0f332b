"""Small configs of ours, one for each family; the registry's where there is none here."""

from numformer.interop import FAMILIES
from numformer.verify.registry import MODELS

_SIZES = dict(n_layers=2, n_heads=2, d_model=8, d_hidden=12)
_TEXT = dict(_SIZES, vocab_size=11, context_length=8)
_IMAGES = dict(_SIZES, image_size=8, patch_size=4, channels=3, n_classes=5)
SMALL = {
    "gpt2": _TEXT, "openai-gpt": dict(_TEXT, d_hidden=None),
    "llama": dict(_TEXT, n_kv_heads=1, tied=False), "mistral": dict(_TEXT, tied=True),
    "qwen3": _TEXT, "mixtral": dict(_TEXT, n_experts=3, tied=False),
    "qwen2": dict(_TEXT, n_kv_heads=1), "gpt_neox": dict(_TEXT, d_rotary=2, tied=False),
    "bloom": dict(_TEXT, d_hidden=None), "gemma": dict(_TEXT, d_head=6),
    "gemma2": dict(_TEXT, d_head=6, sliding_window=3, score_softcap=2.0),
    "gemma3_text": dict(_TEXT, sliding_window=3, local_rotary_base=20.0,
                        layer_types="sliding_attention,full_attention"),
    "opt": _TEXT, "gpt_neo": dict(_TEXT, sliding_window=3), "mpt": dict(_TEXT, d_hidden=None),
    "starcoder2": dict(_TEXT, n_kv_heads=1, tied=True),
    "phi3": dict(_TEXT, n_kv_heads=1, tied=False),
    "qwen3_moe": dict(_TEXT, n_experts=3, tied=False),
    "bert": dict(_TEXT, next_sentence=True), "roberta": dict(_TEXT, segments=1),
    "xlm-roberta": dict(_TEXT, segments=1), "camembert": dict(_TEXT, segments=1),
    "distilbert": _TEXT,
    "modernbert": dict(_TEXT, n_layers=4, sliding_window=3, local_rotary_base=20.0),
    "t5": dict(_TEXT, tied=True),
    "mt5": dict(_TEXT, tied=False), "bart": _TEXT, "mbart": dict(_TEXT, n_encoder_layers=1),
    "sentence-bert": dict(_TEXT, pooler=True), "sentence-roberta": dict(_TEXT, segments=1),
    **dict.fromkeys(("sentence-xlm-roberta", "sentence-camembert"), dict(_TEXT, segments=1)),
    "sentence-distilbert": _TEXT,
    **dict.fromkeys(("sentence-t5", "sentence-mt5"), dict(_TEXT, feedforward="geglu_tanh")),
    "sentence-modernbert": dict(_TEXT, n_layers=4, sliding_window=3, local_rotary_base=20.0),
    "clip": dict(_TEXT, image_size=8, patch_size=4, channels=3, d_embedding=5, text_layers=1,
                 text_heads=2, text_width=4, text_hidden=7),
    "clip_text_model": dict(_TEXT, d_embedding=5), "clip_text_alone": _TEXT,
    **dict.fromkeys(("vit", "deit", "deit-of-one-head", "clip_vision_model"), _IMAGES),
}
SMALL |= {f"{name}-{what}": dict(sizes, **more)
          for name, sizes in {**SMALL, "bert": _TEXT}.items() if name in (
              "bert", "roberta", "xlm-roberta", "camembert", "distilbert", "modernbert")
          for what, more in (("texts", dict(n_classes=3)), ("tokens", dict(n_classes=4)),
                             ("spans", {}))}
SMALL |= {name: next(model.config.as_dict() for model in (case.layer() for case in MODELS)
                     if type(model) is family.model)
          for name, family in FAMILIES.items() if name not in SMALL}
