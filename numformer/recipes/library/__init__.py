"""Encoders of the standard library's texts: pre-trained, fine-tuned, distilled."""

from numformer.recipes.library import bert, fine_tuning, gpt, tinybert

PRESETS = {**bert.PRESETS, **fine_tuning.PRESETS, **gpt.PRESETS,
           **tinybert.PRESETS}
