"""Pre-trained language models with a linear layer on top, to be fine-tuned."""

from numformer.models.classifiers.decoder_classifier import (
    DecoderClassifier, DecoderClassifierConfig)
from numformer.models.classifiers.pretrained import backbone_options, load_pretrained_backbone

__all__ = ["DecoderClassifier", "DecoderClassifierConfig", "backbone_options",
           "load_pretrained_backbone"]
