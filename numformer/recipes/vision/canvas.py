"""Digits somewhere on a larger canvas: the Swin Transformer in small, with and without shifts."""

import numpy as np

from numformer.analysis import attention_by_layer
from numformer.backend import one_blas_thread
from numformer.data import Digits
from numformer.finite import predicted_classes
from numformer.models import SwinConfig
from numformer.recipes.preset import Preset, more
from numformer.recipes.vision.vit import DigitTask, Images

SIDE = 16                                                             # pixels of the canvas
COPIES = 2                                                            # of each training image
POSITIONS = 2                                                         # seed of their positions


def on_canvas(images, rng):
    """Each image at a random position on an empty canvas of 16 x 16 pixels."""
    B, height, width, channels = images.shape
    canvas = np.zeros((B, SIDE, SIDE, channels), images.dtype)
    rows = rng.integers(0, SIDE - height + 1, B)
    columns = rng.integers(0, SIDE - width + 1, B)
    for b, (row, column) in enumerate(zip(rows, columns)):
        canvas[b, row:row + height, column:column + width] = images[b]
    return canvas


class CanvasTask(DigitTask):
    """Classify digits that are somewhere on a canvas four times as large.

    Each training image is pasted at two random positions, each test image at one. The positions
    are the same in all runs. A nearest neighbour would need each digit at each of 81 positions.
    """

    name = "digits-on-canvas"
    kinds = ("VisionTransformer", "ConvolutionClassifier")

    def load(self, data):
        dataset = super().load(data)
        digits, rng = dataset.digits, np.random.default_rng(POSITIONS)
        images = np.concatenate([digits.train_images] * COPIES)
        labels = np.concatenate([digits.train_labels] * COPIES)
        return Images(f"{dataset.name} on a canvas", Digits(
            on_canvas(images, rng), labels, on_canvas(digits.test_images, rng),
            digits.test_labels))

    def pictures(self, model, tokenizer):
        """The attention that each patch gets within its window, in the first and second block."""
        if not isinstance(model.config, SwinConfig):
            return super().pictures(model, tokenizer)
        from numformer.plots import attention_received, patch_attention

        images, labels = self._some(model, np.random.default_rng(0))
        with one_blas_thread():
            predicted = predicted_classes(self.name, model(images), model)
        captions = [f"{label}" if digit == label else f"{label}, predicted as {digit}"
                    for label, digit in zip(labels, predicted)]
        side, blocks = model.config.stages[0][3], model.stages[0].blocks
        weights, pictures = list(attention_by_layer(model, images).values()), {}
        for n, block in enumerate(blocks[:2]):
            offset = block.attention.offset
            received = attention_received(weights[n], side, side, offset)
            pictures[f"attention-{n + 1}.png"] = patch_attention(
                images, received, captions, title=f"Attention within windows, block {n + 1}"
                + f", shifted by {offset}" * (offset > 0))
        return pictures


MODEL = dict(image_size=SIDE, patch_size=2, d_model=32, depths="2,2", heads="2,4", window=2,
             mlp_ratio=2.0, dropout=0.1, init_std=0.1)
TRAINING = dict(steps=700, batch_size=64, optimizer="muon", muon_ratio=3.0, learning_rate=3e-3,
                min_learning_rate=0.0, warmup_steps=50, eval_every=350, save_every=350)
RECIPE = dict(label_smoothing=0.1)
PRESETS = {
    # Liu et al. (2021), smaller. Windows of 2 x 2 patches are 4 x 4 pixels, then 8 x 8: without
    # shifts the last features of a quarter of the canvas depend on that quarter alone
    "swin": Preset(MODEL, TRAINING, CanvasTask(), "Swin", recipe=RECIPE,
                   claims=(more("accuracy", beats="nearest_neighbour_accuracy",
                                ahead_of=("swin-unshifted",)),)),
    "swin-unshifted": Preset({**MODEL, "shifted": False}, TRAINING, CanvasTask(), "Swin",
                             recipe=RECIPE, claims=(more("accuracy", 0.2),)),    # chance is 0.1
}
