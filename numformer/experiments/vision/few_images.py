"""Convolution or attention with few images: what locality and shared weights are worth."""

import numpy as np

from numformer.data import Digits
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.training import trained, trainer_of
from numformer.recipes import PRESETS
from numformer.recipes.preset import more
from numformer.recipes.vision.vit import DigitTask, Images
from numformer.training import accuracy

SIZES = (100, 400, 1500)                                              # training images
STEPS = 400
MODELS = {"cnn": "digits-cnn", "vit": "vit"}


class FewDigits(DigitTask):
    """The digits with only some of their training images, as many of each digit."""

    def __init__(self, n_images, seed):
        self.n_images, self.seed = n_images, seed

    def load(self, data):
        dataset = super().load(data)
        digits, n = dataset.digits, self.n_images
        if n >= len(digits.train_labels):
            return dataset
        order = np.random.default_rng([self.seed, n]).permutation(len(digits.train_labels))
        labels = digits.train_labels[order]
        rows = np.concatenate([order[labels == digit][:n // 10] for digit in range(10)])
        return Images(f"{n} of {dataset.name}", Digits(
            digits.train_images[rows], digits.train_labels[rows], digits.test_images,
            digits.test_labels))


def measure(seed, steps=None):
    """Accuracy on the test set of both models, for each number of training images."""
    figures = {}
    for name, preset in MODELS.items():
        for n in SIZES:
            chosen = PRESETS[preset]._replace(task=FewDigits(n, seed))
            trainer, *_ = trainer_of(chosen, seed, steps or STEPS)
            figures[f"{name}_{n}"] = accuracy(trained(trainer).model, trainer.validation)
    lines = [f"{'images':>8}" + "".join(f"{name.upper():>8}" for name in MODELS)]
    lines += [f"{n:8}" + "".join(f"{figures[f'{name}_{n}']:8.1%}" for name in MODELS)
              for n in SIZES]

    def picture():
        from numformer.plots import accuracy_by_images

        return accuracy_by_images(SIZES, {
            label: [figures[f"{name}_{n}"] for n in SIZES]
            for name, label in (("cnn", "convolutions"), ("vit", "Vision Transformer"))})
    return Outcome(figures, picture, "\n".join(lines))


EXPERIMENT = Experiment(
    "How many images do convolutions and attention each need to recognize digits?", measure,
    (more("cnn_100", beats="vit_100"), more("cnn_400", beats="vit_400")))
