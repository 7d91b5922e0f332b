"""Models of images."""

from numformer.recipes.vision import canvas, digits_cnn, vit

PRESETS = {**vit.PRESETS, **digits_cnn.PRESETS, **canvas.PRESETS}
from numformer.recipes.vision import detection, vit
PRESETS = {**vit.PRESETS, **detection.PRESETS}
