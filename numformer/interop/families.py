"""The families of published models, each a table in the folder of its model."""

from numformer.models.bert.bert_weights import BERT, DISTILBERT, ROBERTA
from numformer.models.bert.modernbert_weights import MODERNBERT
from numformer.models.bert.sentence_weights import SENTENCES
from numformer.models.clip.weights import CLIP, CLIP_IMAGE, CLIP_TEXT
from numformer.models.decoder.gpt_weights import GPT1, GPT2
from numformer.models.decoder.llama_weights import (
    GEMMA, GEMMA2, GEMMA3, LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3)
from numformer.models.decoder.neox_weights import BLOOM, GPT_NEOX
from numformer.models.encoder_decoder.bart_weights import BART, MBART
from numformer.models.encoder_decoder.t5_weights import MT5, T5
from numformer.models.vision_transformer.weights import DEIT, DEIT_OF_ONE_HEAD, VIT

# Of several that fit a model, the first is written
FAMILIES = {family.name: family for family in (
    GPT2, GPT1, GPT_NEOX, BLOOM, LLAMA, QWEN2, QWEN3, MIXTRAL, MISTRAL, GEMMA, GEMMA2, GEMMA3, BERT,
    ROBERTA, DISTILBERT, MODERNBERT, *SENTENCES, T5, MT5, BART, MBART, VIT, DEIT, DEIT_OF_ONE_HEAD,
    CLIP, CLIP_TEXT, CLIP_IMAGE)}

__all__ = ["FAMILIES"]
