"""A small convolutional network on the same digits as the Vision Transformer."""

from numformer.recipes.preset import Preset, more
from numformer.recipes.vision.vit import DigitTask

PRESETS = {
    # LeNet-5 (LeCun et al. 1998) for 8 x 8 pixels: windows of 3 x 3, and more channels
    "digits-cnn": Preset(
        dict(image_size=8, widths="16,32", kernel_width=3, padding=1, hidden="64", dropout=0.2),
        dict(steps=800, batch_size=64, optimizer="adamw", learning_rate=3e-3,
             min_learning_rate=0.0, warmup_steps=50, eval_every=400, save_every=400),
        DigitTask(), "ConvolutionClassifier",
        claims=(more("accuracy", 0.97, beats="nearest_neighbour_accuracy"),)),
}
