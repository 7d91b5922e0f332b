"""Models of images."""

from numformer.recipes.vision import digits_cnn, vit

PRESETS = {**vit.PRESETS, **digits_cnn.PRESETS}
