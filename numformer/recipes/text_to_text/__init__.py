"""Pairs of texts, which encoder-decoders learn."""

from numformer.recipes.text_to_text import (
    bart, pronouns, senses, seq2seq, t5, tale_documents, tales, translate)

PRESETS = {**seq2seq.PRESETS, **translate.PRESETS, **t5.PRESETS, **bart.PRESETS,
           **tales.PRESETS, **tale_documents.PRESETS, **pronouns.PRESETS,
           **senses.PRESETS}
