"""Images: convolutions, attention, and how much data each needs."""

from numformer.experiments.vision import few_images

EXPERIMENTS = {"few-images": few_images.EXPERIMENT}
