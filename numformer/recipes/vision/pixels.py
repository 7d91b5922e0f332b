"""Images written pixel by pixel: a decoder of grey levels in raster order, given the class."""

import math
from collections import Counter

import numpy as np

from numformer.data import Batch, DataError, Epochs, EpochStream, consecutive_rows
from numformer.generation import generate_batch
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.vision.nearest import nearest_images
from numformer.recipes.vision.vit import DigitTask
from numformer.training import mean_loss

LEVELS, DIGITS, PIXELS = 17, 10, 64                                   # grey levels; classes
SHOWN, EACH = 10, 50                                  # samples of a digit: in a picture, measured
MASSES = (0.1, 0.3, 1.0, 3.0, 10.0)                                   # of a coarser distribution


class PixelStream(EpochStream):
    """Batches of sequences (N, 65): the class token, then the pixels."""

    def __init__(self, ids, batch_size, seed):
        super().__init__(Epochs(len(ids), batch_size, seed))
        self.ids = ids

    def build(self, rows, epoch, step):
        return pixel_batch(self.ids[rows])


class PixelTask(DigitTask):
    """Predict every pixel of a digit from its class and the pixels before it."""

    name = "pixels"
    unit = "nats per pixel"
    from_the_data = frozenset({"vocab_size"})

    def options(self, tokenizer):
        return {"vocab_size": LEVELS + DIGITS}

    def stream(self, dataset, tokenizer, config, training):
        self._check(config)
        digits = dataset.digits
        return PixelStream(pixel_ids(digits.train_images, digits.train_labels),
                           training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        self._check(config)
        ids = pixel_ids(dataset.digits.test_images, dataset.digits.test_labels)[:blocks]
        return [pixel_batch(ids[rows]) for rows in consecutive_rows(len(ids), 128)]

    def sample(self, model, tokenizer, rng):
        """One image of each of two digits, darker letters for more ink."""
        labels = rng.permutation(DIGITS)[:2]
        pictures = self.draw(model, labels, rng)
        return "\n\n".join(f"a {label}:\n" + "\n".join(
            "".join(" .:-=+*#%@"[min(int(9 * x + 0.5), 9)] * 2 for x in row) for row in picture)
            for label, picture in zip(labels, pictures))

    def draw(self, model, labels, rng):
        """An image (8, 8) for each label, 0 to 1, sampled at temperature 1."""
        prompts = [np.array([LEVELS + label]) for label in labels]
        rngs = [np.random.default_rng(int(seed)) for seed in rng.integers(2**32, size=len(labels))]
        levels = np.stack(list(generate_batch(model, prompts, PIXELS, rngs)), axis=1)     # (B, 64)
        # a class token is no pixel; the model gives it hardly any probability
        return np.minimum(levels, LEVELS - 1).reshape(-1, 8, 8) / (LEVELS - 1)

    def reading(self, model, tokenizer, text=None):
        raise ValueError(f"the task {self.name} has images, not texts, to look at.")

    def pictures(self, model, tokenizer):
        """Samples of every digit."""
        from numformer.plots import image_grid

        labels = np.repeat(np.arange(DIGITS), SHOWN)
        drawn = self.draw(model, labels, np.random.default_rng(0)).reshape(DIGITS, SHOWN, 8, 8)
        return {"samples.png": image_grid(drawn, [str(k) for k in range(DIGITS)],
                                          title="Sampled pixel by pixel, given the digit")}

    def measure(self, model, tokenizer, dataset):
        """Bits per pixel, and how samples look; for counts and for test images, too.

        A sample is recognized if the nearest training digit has its label. That asks for the digit,
        not for clean strokes: pixels sampled each by itself pass, too. Their distance to the
        nearest training digit is larger. Test images show what it is for new digits; it would be
        near 0 for copies of training digits.
        """
        digits = dataset.digits
        train = pixel_ids(digits.train_images, digits.train_labels)
        test = pixel_ids(digits.test_images, digits.test_labels)
        labels = np.repeat(np.arange(DIGITS), EACH)
        drawn = {"samples": self.draw(model, labels, np.random.default_rng(0)),
                 "histogram_samples": histogram_samples(train, labels, np.random.default_rng(0)),
                 "test_images": digits.test_images[..., 0]}
        loss = mean_loss(model, self.validation(dataset, tokenizer, model.config))
        figures = {"bits_per_pixel": loss / math.log(2),
                   "histogram_bits_per_pixel": histogram_bits(train, test),
                   "ngram_bits_per_pixel": min(ngram_bits(train, test, n) for n in (2, 3))}
        for name, images in drawn.items():
            found, distances = nearest_digits(digits, images)
            true = digits.test_labels if name == "test_images" else labels
            figures |= {f"{name}_recognized": float((found == true).mean()),
                        f"{name}_distance": float(distances.mean())}
        return figures

    def _check(self, config):
        if config.context_length < PIXELS:
            raise DataError(f"an image is {PIXELS} tokens, but context_length="
                            f"{config.context_length}; use --context-length {PIXELS}.")


def pixel_ids(images, labels):
    """Sequences (N, 65) of images (N, 8, 8, 1): a class token, then 64 grey levels, 0 to 16."""
    levels = np.rint(images.reshape(len(images), PIXELS) * (LEVELS - 1)).astype(np.int64)
    return np.concatenate([LEVELS + labels[:, None], levels], axis=1)


def pixel_batch(ids):
    """The `Batch` of next-token prediction: all 64 pixels are targets."""
    return Batch(inputs=ids[:, :-1], targets=ids[:, 1:])


def histogram_bits(train, test):
    """Bits per pixel of counts for each class and position, with the best smoothing for the test.
    """
    def bits(mass):
        counts = np.full((DIGITS, PIXELS, LEVELS), mass / LEVELS)
        np.add.at(counts, (train[:, :1] - LEVELS, np.arange(PIXELS), train[:, 1:]), 1)
        p = counts / counts.sum(axis=-1, keepdims=True)
        return -np.log2(p[test[:, :1] - LEVELS, np.arange(PIXELS), test[:, 1:]]).mean()
    return float(min(map(bits, MASSES)))


def ngram_bits(train, test, n):
    """Bits per pixel of an n-gram model in raster order, smoothed as is best for the test.

    Counts after n - 1 tokens are mixed with the distribution after fewer, as by Witten and Bell.
    """
    def contexts(ids, k):
        return [[(*row[max(0, t - k):t],) for t in range(1, PIXELS + 1)] for row in ids.tolist()]

    p = {mass: np.full((len(test), PIXELS), 1 / LEVELS) for mass in MASSES}
    for k in range(n):
        pairs, totals = Counter(), Counter()
        for row, its_contexts in zip(train.tolist(), contexts(train, k)):
            pairs.update(zip(its_contexts, row[1:]))
            totals.update(its_contexts)
        found = contexts(test, k)
        of_pairs = np.array([[pairs[one] for one in zip(its_contexts, row[1:])]
                             for row, its_contexts in zip(test.tolist(), found)])
        of_contexts = np.array([[totals[one] for one in its_contexts] for its_contexts in found])
        p = {mass: (of_pairs + mass * p[mass]) / (of_contexts + mass) for mass in MASSES}
    return float(min(-np.log2(each).mean() for each in p.values()))


def histogram_samples(ids, labels, rng):
    """An image (8, 8) for each label: every pixel is that of a random image of the class."""
    of_class = [np.flatnonzero(ids[:, 0] == LEVELS + k) for k in range(DIGITS)]
    rows = np.stack([rng.choice(of_class[k], PIXELS) for k in labels])                # (N, 64)
    return ids[rows, np.arange(1, PIXELS + 1)].reshape(-1, 8, 8) / (LEVELS - 1)


def nearest_digits(digits, images):
    """The labels of the training digits nearest to images (N, 8, 8), and their distances."""
    nearest, distances = nearest_images(images, digits.train_images)
    return digits.train_labels[nearest], distances


PRESETS = {
    # Chen et al. (2020), "Generative Pretraining from Pixels", smaller, with a class token
    "pixels": Preset(
        dict(context_length=PIXELS, n_layers=3, n_heads=4, d_model=64, positions="learned",
             dropout=0.2, init_std=0.1),
        dict(steps=800, batch_size=32, optimizer="muon", muon_ratio=3.0, learning_rate=3e-3,
             min_learning_rate=0.0, warmup_steps=50, eval_every=400, save_every=400),
        PixelTask(), "Decoder",
        claims=(Claim("bits_per_pixel", 1.95, beats="histogram_bits_per_pixel"),
                Claim("bits_per_pixel", beats="ngram_bits_per_pixel"),
                more("samples_recognized", 0.85, beats="histogram_samples_recognized"),
                Claim("samples_distance", beats="histogram_samples_distance"))),
}
