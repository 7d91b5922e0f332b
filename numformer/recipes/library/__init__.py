"""Encoders of the standard library's texts: pre-trained, fine-tuned."""

from numformer.recipes.library import bert, fine_tuning, gpt

PRESETS = {**bert.PRESETS, **fine_tuning.PRESETS, **gpt.PRESETS}
