"""The families of published models, a table each; a later one is one more page here."""

from numformer.interop.families.bart import BART, MBART
from numformer.interop.families.bert import BERT, DISTILBERT, ROBERTA
from numformer.interop.families.clip import CLIP, CLIP_IMAGE, CLIP_TEXT
from numformer.interop.families.gpt import GPT1, GPT2
from numformer.interop.families.llama import (
    GEMMA, GEMMA2, GEMMA3, LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3)
from numformer.interop.families.modernbert import MODERNBERT
from numformer.interop.families.neox import BLOOM, GPT_NEOX
from numformer.interop.families.sentences import SENTENCES
from numformer.interop.families.t5 import MT5, T5
from numformer.interop.families.vit import DEIT, DEIT_OF_ONE_HEAD, VIT

# Of several that fit a model, the first is written
FAMILIES = {family.name: family for family in (
    GPT2, GPT1, GPT_NEOX, BLOOM, LLAMA, QWEN2, QWEN3, MIXTRAL, MISTRAL, GEMMA, GEMMA2, GEMMA3, BERT,
    ROBERTA, DISTILBERT, MODERNBERT, *SENTENCES, T5, MT5, BART, MBART, VIT, DEIT, DEIT_OF_ONE_HEAD,
    CLIP, CLIP_TEXT, CLIP_IMAGE)}

__all__ = ["FAMILIES"]
