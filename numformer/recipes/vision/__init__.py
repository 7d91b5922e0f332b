"""Models of images."""

from numformer.recipes.vision import canvas, clip, detection, digits_cnn, pixels, questions, vit

PRESETS = {**vit.PRESETS, **digits_cnn.PRESETS, **canvas.PRESETS, **detection.PRESETS,
           **clip.PRESETS, **pixels.PRESETS, **questions.PRESETS}
