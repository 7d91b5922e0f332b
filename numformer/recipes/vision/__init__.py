"""Models of images."""

from numformer.recipes.vision import vit

PRESETS = {**vit.PRESETS}
