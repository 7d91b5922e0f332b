"""Encoders of the standard library's texts: pre-trained, fine-tuned."""

from numformer.recipes.library import bert, fine_tuning

PRESETS = {**bert.PRESETS, **fine_tuning.PRESETS}
