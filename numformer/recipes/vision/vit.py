"""The Vision Transformer in small: digits; and image models from elsewhere."""

import hashlib
from dataclasses import dataclass

import numpy as np

from numformer.analysis import attention_by_layer
from numformer.analysis.attention_views import Reading
from numformer.analysis.patch_positions import patch_positions
from numformer.backend import one_blas_thread
from numformer.data import DataError, Digits, LabelledStream, labelled_batches, load_digits
from numformer.files import MIB, open_file
from numformer.finite import check_logits, predicted_classes
from numformer.models import VisionTransformerConfig
from numformer.recipes.preset import Preset, more
from numformer.recipes.task import Task
from numformer.recipes.vision.nearest import nearest_neighbour_accuracy
from numformer.training import accuracy

SHOWN = 8                                                             # images in a picture
CLASSES = 5                                                           # most probable ones
MOST = 256 * MIB                                                      # of a file


@dataclass(frozen=True)
class Images:
    """A dataset of labelled images.

    Parameters
    ----------
    name : str
    digits : Digits
    """

    name: str
    digits: Digits

    def __len__(self):
        """Images in all."""
        return len(self.digits.train_labels) + len(self.digits.test_labels)

    @property
    def sha256(self):
        """Checksum of all pixels and labels."""
        checksum = hashlib.sha256()
        for array in self.digits:
            checksum.update(np.ascontiguousarray(array).tobytes())
        return checksum.hexdigest()


def reading_of(image, config):
    """The `Reading` of an image (height, width, channels); patches are labelled row,column."""
    side, first = range(1, config.side + 1), ["[CLS]"] * config.first_patch
    return Reading((image[None],), first + [f"{row},{column}" for row in side for column in side],
                   image=image)


class DigitTask(Task):
    """Classify images of digits; measured by the accuracy on the test set."""

    name = "digits"
    unit = "nats per image"
    from_the_data = frozenset({"channels", "n_classes"})
    has_tokens = False

    def load(self, data):
        if data is not None:
            return super().load(data)
        return Images("digits drawn by rule", load_digits())

    def tokenizer(self, dataset):
        """None: images have no tokens."""
        return None

    def options(self, tokenizer):
        return {"channels": 1, "n_classes": 10}

    def stream(self, dataset, tokenizer, config, training):
        digits, size = dataset.digits, dataset.digits.train_images.shape[1]
        if config.image_size != size:
            raise DataError(f"{dataset.name} are {size} x {size} pixels, but the model takes "
                            f"{config.image_size} x {config.image_size}; leave --image-size out.")
        return LabelledStream(digits.train_images.astype(config.dtype), digits.train_labels,
                              training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        digits = dataset.digits
        return labelled_batches(digits.test_images[:blocks].astype(config.dtype),
                                digits.test_labels[:blocks])

    def sample(self, model, tokenizer, rng):
        """Predictions for a few images of the test set."""
        images, labels = self._some(model, rng)
        with one_blas_thread():
            predicted = predicted_classes(self.name, model(images), model)
        return "; ".join(f"a {label}, predicted {'right' if digit == label else f'as {digit}'}"
                         for label, digit in zip(labels, predicted))

    def reading(self, model, tokenizer, text=None):
        """An image of the test set by its number, by default 0; patches are labelled row,column."""
        if not isinstance(model.config, VisionTransformerConfig):
            raise ValueError(f"{type(model).__name__} has no attention to look at.")
        images = self.load(None).digits.test_images
        if text is not None and not (text.strip().isdecimal() and int(text) < len(images)):
            raise ValueError(f"{text!r} is no image of the test; "
                             f"give its number, 0 to {len(images) - 1}.")
        return reading_of(images[int(text or 0)].astype(model.config.dtype), model.config)

    def pictures(self, model, tokenizer):
        """Attention to patches in images of the test set, and the similarity of positions."""
        from numformer.plots import patch_attention, position_similarity

        if not isinstance(model.config, VisionTransformerConfig):
            return {}
        images, labels = self._some(model, np.random.default_rng(0))
        first = model.config.first_patch
        with one_blas_thread():
            predicted = predicted_classes(self.name, model(images), model)
        *_, weights = attention_by_layer(model, images).values()
        weights = weights.mean(axis=1)                                    # (B, T, T)
        attended = weights[:, 0, first:] if first else weights.mean(axis=1)   # (B, patches)
        captions = [f"{label}" if digit == label else f"{label}, predicted as {digit}"
                    for label, digit in zip(labels, predicted)]
        title = ("Attention of the class token in the last block" if first
                 else "Mean attention of all patches in the last block")
        pictures = {"attention.png": patch_attention(images, attended, captions, title=title)}
        positions = patch_positions(model)
        if positions.any():
            pictures["positions.png"] = position_similarity(positions)
        return pictures

    def measure(self, model, tokenizer, dataset):
        """Accuracy on the test set, of the model and of the nearest training image."""
        return {"accuracy": accuracy(model, self.validation(dataset, tokenizer, model.config)),
                "nearest_neighbour_accuracy": nearest_neighbour_accuracy(*dataset.digits)}

    def _some(self, model, rng):
        """Images of the test set and their labels."""
        digits = self.load(None).digits
        chosen = rng.choice(len(digits.test_labels), SHOWN, replace=False)
        return digits.test_images[chosen].astype(model.config.dtype), digits.test_labels[chosen]


@dataclass(frozen=True)
class NoImages:
    """A dataset without images."""

    name: str = "no images"
    sha256: str = hashlib.sha256(b"").hexdigest()

    def __len__(self):
        return 0


class ImageTask(Task):
    """Classify images that a user gives: each a .npy file (height, width, channels) of numbers as
    the model reads them, already resized and normalized."""

    name = "images"
    kinds = ("VisionTransformer",)
    needed_prompt = "IMAGE.npy"
    unit = "nats per image"
    has_tokens = False

    def load(self, data):
        return super().load(data) if data is not None else NoImages()

    def tokenizer(self, dataset):
        """None: images have no tokens."""
        return None

    def options(self, tokenizer):
        return {}

    def stream(self, dataset, tokenizer, config, training):
        raise DataError("an imported image model has no images to train on; in Python, "
                        "numformer.training.Trainer takes any.")

    def validation(self, dataset, tokenizer, config, blocks=None):
        raise DataError("an imported image model has no images to be measured on; "
                        "give one to `numformer sample RUN --prompt FILE.npy`.")

    def sample(self, model, tokenizer, rng):
        raise DataError("an imported image model has no images of its own; "
                        "give one with --prompt FILE.npy.")

    def answer(self, model, tokenizer, text):
        """The most probable classes of the image in a file, by number, with probabilities."""
        with one_blas_thread():
            logits = model(self.image(model.config, text)[None])[0]
        check_logits(self.name, logits, model)
        weights = np.exp(logits - logits.max())
        likely = np.argsort(-logits, kind="stable")[:CLASSES]
        return ", ".join(f"class {n}: {weights[n] / weights.sum():.3f}" for n in likely), 0

    def reading(self, model, tokenizer, text=None):
        """The image in a file; patches are labelled row,column."""
        if text is None:
            raise ValueError("an imported image model has no images of its own; give one with "
                             "--text FILE.npy.")
        return reading_of(self.image(model.config, text), model.config)

    def image(self, config, path):
        """The array of a .npy file; ValueError if it does not fit the model."""
        shape = (config.image_size, config.image_size, config.channels)
        try:
            with open_file(path, MOST):               # a regular file, of a sensible size
                image = np.lib.format.open_memmap(path, mode="r")
        except (OSError, ValueError, OverflowError, TypeError) as error:
            raise ValueError(f"{path!r} is no .npy file of an image ({error}).") from None
        if image.dtype.kind not in "fiu" or image.shape != shape or not np.isfinite(image).all():
            raise ValueError(f"{path!r} must hold finite numbers of shape {shape}, (height, width, "
                             "channels).")
        return image.astype(config.dtype)


PRESETS = {
    # Dosovitskiy et al. (2021), smaller. The settings were chosen on other digits, handwritten ones
    "vit": Preset(
        dict(image_size=8, patch_size=2, n_layers=3, n_heads=4, d_model=64, positions="learned_2d",
             dropout=0.2, init_std=0.1),
        dict(steps=1500, batch_size=64, optimizer="muon", muon_ratio=3.0, learning_rate=3e-3,
             min_learning_rate=0.0, warmup_steps=50, eval_every=500, save_every=500),
        DigitTask(), "VisionTransformer", recipe=dict(label_smoothing=0.1),
        claims=(more("accuracy", 0.97, beats="nearest_neighbour_accuracy"),)),
}
