"""The task of the Vision Transformer: say which digit was written by hand."""

import hashlib
from dataclasses import dataclass

import numpy as np

from numformer.backend import one_blas_thread
from numformer.datasets import DataError, Digits, load_digits
from numformer.plots.views import Reading
from numformer.tasks.task import Task
from numformer.training import LabelledStream, accuracy, labelled_batches

SHOWN = 8                                                             # images in a picture


@dataclass(frozen=True)
class Images:
    """Labelled images, to train on and to test on.

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


def patch_positions(model):
    """What a Vision Transformer adds to each patch: ndarray (patches, C); zeros where it has no positions to add."""
    return model.positions(np.zeros((1, model.config.side ** 2, model.config.d_model), model.config.dtype))[0]


class DigitTask(Task):
    """Images of digits to what they show. Measured by the share of the test's images that are told right."""

    name = "digits"
    kinds = ("VisionTransformer",)
    unit = "nats an image"
    from_the_data = frozenset({"channels", "n_classes"})
    tokens = False

    def load(self, data):
        if data is not None:
            return super().load(data)
        try:
            return Images("scikit-learn's digits", load_digits())
        except ImportError as error:
            raise DataError(str(error)) from None

    def tokenizer(self, material):
        """None: images are no text."""
        return None

    def switches(self, tokenizer):
        return {"channels": 1, "n_classes": 10}

    def stream(self, material, tokenizer, config, training):
        digits, size = material.digits, material.digits.train_images.shape[1]
        if config.image_size != size:
            raise DataError(f"{material.name} are {size} x {size} pixels, but the model takes {config.image_size} x {config.image_size}; "
                            "leave --image-size out.")
        return LabelledStream(digits.train_images.astype(config.dtype), digits.train_labels, training.batch_size * training.accumulation,
                              training.seed)

    def validation(self, material, tokenizer, config, blocks=None):
        return labelled_batches(material.digits.test_images[:blocks].astype(config.dtype), material.digits.test_labels[:blocks])

    def sample(self, model, tokenizer, rng):
        """What the model makes of a few images of the test."""
        images, labels = self._some(model, rng)
        with one_blas_thread():
            told = model(images).argmax(axis=1)
        return "; ".join(f"a {label}, told {'right' if digit == label else f'as {digit}'}" for label, digit in zip(labels, told))

    def reading(self, model, tokenizer, text=None):
        """An image of the test by its number, the first unless given; its patches are named by row and column."""
        images = self.load(None).digits.test_images
        if text is not None and not (text.strip().isdecimal() and int(text) < len(images)):
            raise ValueError(f"{text!r} is no image of the test; give its number, 0 to {len(images) - 1}.")
        image = images[int(text or 0)].astype(model.config.dtype)
        side = range(1, model.config.side + 1)
        first = ["[CLS]"] if model.config.pooling == "class" else []
        return Reading((image[None],), first + [f"{row},{column}" for row in side for column in side], image=image)

    def pictures(self, model, tokenizer):
        """Where the model looks in images of the test, and which patches have like positions."""
        from numformer.plots import patch_attention, position_similarity

        images, labels = self._some(model, np.random.default_rng(0))
        first = int(model.config.pooling == "class")
        with one_blas_thread():
            told, weights = model(images).argmax(axis=1), model.attention_weights(images)[-1].mean(axis=1)         # (B, T, T)
        looked = weights[:, 0, 1:] if first else weights.mean(axis=1)                                              # (B, patches)
        pictures = {"attention.png": patch_attention(
            images, looked, [f"{label}" if digit == label else f"{label}, told as {digit}" for label, digit in zip(labels, told)],
            title="Where the class token looks in the last block" if first else "Where patches look on average in the last block")}
        positions = patch_positions(model)
        if positions.any():
            pictures["positions.png"] = position_similarity(positions)
        return pictures

    def measure(self, model, tokenizer, material):
        """The share of the test's images that are told right."""
        return {"accuracy": accuracy(model, self.validation(material, tokenizer, model.config))}

    def _some(self, model, rng):
        """Images of the test and their labels."""
        digits = self.load(None).digits
        chosen = rng.choice(len(digits.test_labels), SHOWN, replace=False)
        return digits.test_images[chosen].astype(model.config.dtype), digits.test_labels[chosen]
