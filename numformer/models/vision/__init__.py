"""Image models without attention."""

from numformer.models.vision.convolution_classifier import (
    CONVOLUTION_CONFIGS, ConvolutionClassifier, ConvolutionClassifierConfig)

__all__ = ["CONVOLUTION_CONFIGS", "ConvolutionClassifier", "ConvolutionClassifierConfig"]
