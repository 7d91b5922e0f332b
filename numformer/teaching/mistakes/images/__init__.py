"""Likely mistakes in the mathematics of images: convolutions, windows, boxes."""

from numformer.teaching.mistakes.images import convolutions, detection, swin

MISTAKES = {**convolutions.MISTAKES, **swin.MISTAKES, **detection.MISTAKES}
