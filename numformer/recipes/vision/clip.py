"""CLIP in small: digits and captions, both by rule, and classification by captions."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import (
    HELD_OUT_PHRASING, PHRASINGS, Batch, DataError, Epochs, EpochStream, WordTokenizer,
    all_captions, digit_caption)
from numformer.finite import predicted_classes
from numformer.recipes.preset import Preset, more
from numformer.recipes.vision.vit import DigitTask
from numformer.seeds import NOISE, branch

DIGITS = 10


class CaptionStream(EpochStream):
    """Pairs of images and captions in tens that hold every digit once.

    So no image of a ten fits the caption of another, and a shard of ten pairs has no wrong
    negatives. The caption of an image is chosen again in every step.
    """

    def __init__(self, digits, tokenizer, length, batch_size, seed, dtype):
        by_digit = [np.flatnonzero(digits.train_labels == k) for k in range(DIGITS)]
        super().__init__(Epochs(min(map(len, by_digit)), batch_size // DIGITS, seed))
        self.digits, self.tokenizer, self.length = digits, tokenizer, length
        self.by_digit, self.seed, self.dtype = by_digit, seed, dtype

    def build(self, rows, epoch, step):
        rng = branch(self.seed, NOISE, step)
        chosen = np.concatenate([[rng.choice(self.by_digit[k]) for k in rng.permutation(DIGITS)]
                                 for _ in rows])
        captions = [digit_caption(label, PHRASINGS[rng.integers(len(PHRASINGS))],
                                  bool(rng.integers(2)))
                    for label in self.digits.train_labels[chosen].tolist()]
        ids, lengths = caption_ids(self.tokenizer, captions, self.length)
        return Batch(ids=ids, images=self.digits.train_images[chosen].astype(self.dtype),
                     lengths=lengths)


class CaptionTask(DigitTask):
    """Match images of digits and captions; measured by classification with captions alone."""

    name = "captions"
    unit = "nats per pair"
    from_the_data = frozenset({"channels", "vocab_size", "eos_id"})
    has_tokens = True
    measured_before = True

    def tokenizer(self, dataset):
        """All words of the captions."""
        return WordTokenizer.of("\n".join(all_captions()), special=("[PAD]", "[EOS]"))

    def options(self, tokenizer):
        return {"channels": 1, "vocab_size": len(tokenizer),
                "eos_id": tokenizer.special_id("[EOS]")}

    def stream(self, dataset, tokenizer, config, training):
        batch_size = training.batch_size * training.accumulation
        if batch_size % DIGITS:
            raise DataError(f"batches are tens with every digit once, but batch_size={batch_size}; "
                            f"use --batch-size {-(-batch_size // DIGITS) * DIGITS}.")
        return CaptionStream(dataset.digits, tokenizer, config.context_length, batch_size,
                             training.seed, config.dtype)

    def validation(self, dataset, tokenizer, config, blocks=None):
        images, labels = dataset.digits.test_images, dataset.digits.test_labels
        by_digit = [np.flatnonzero(labels == k) for k in range(DIGITS)]
        batches = []
        for n in range(min(map(len, by_digit)))[:blocks]:
            ids, lengths = caption_ids(
                tokenizer, [digit_caption(k, PHRASINGS[n % len(PHRASINGS)], n % 2 == 1)
                            for k in range(DIGITS)], config.context_length)
            chosen = [rows[n] for rows in by_digit]
            batches.append(Batch(ids=ids, images=images[chosen].astype(config.dtype),
                                 lengths=lengths))
        return batches

    def sample(self, model, tokenizer, rng):
        """Images of the test set with the caption that fits best."""
        images, labels = self._some(model, rng)
        captions = all_captions()
        p = self.probabilities(model, tokenizer, images, captions)
        best = predicted_classes(self.name, p, model)
        return "\n".join(f"a {label}: {captions[k]}" for label, k in zip(labels, best))

    def reading(self, model, tokenizer, text=None):
        raise ValueError(f"the task {self.name} has pairs, not texts, to look at.")

    def pictures(self, model, tokenizer):
        """The similarity of an image of every digit and of captions."""
        from numformer.plots import image_text_similarity

        digits = self.load(None).digits
        chosen = [np.flatnonzero(digits.test_labels == k)[0] for k in range(DIGITS)]
        images = digits.test_images[chosen].astype(model.config.dtype)
        captions = [digit_caption(k, PHRASINGS[k % len(PHRASINGS)], k % 2 == 1)
                    for k in range(DIGITS)]
        ids, lengths = caption_ids(tokenizer, captions, model.config.context_length)
        with one_blas_thread():
            cosines = model.cosines(ids, images, lengths)
        return {"similarity.png": image_text_similarity(cosines, images, captions)}

    def measure(self, model, tokenizer, dataset):
        """Accuracy on test images where the class is that of the best of ten captions.

        Also with a phrasing that no training caption has; guessing finds one in ten.
        """
        digits, accuracies = dataset.digits, {}
        images = digits.test_images.astype(model.config.dtype)
        for name, phrasing in (("zero_shot_accuracy", PHRASINGS[0]),
                               ("new_phrasing_accuracy", HELD_OUT_PHRASING)):
            captions = [digit_caption(k, phrasing) for k in range(DIGITS)]
            p = self.probabilities(model, tokenizer, images, captions)
            found = predicted_classes(self.name, p, model)
            accuracies[name] = float((found == digits.test_labels).mean())
        return accuracies | {"guessing": 1 / DIGITS}

    def probabilities(self, model, tokenizer, images, captions):
        """The probability of every caption for every image."""
        ids, lengths = caption_ids(tokenizer, captions, model.config.context_length)
        with one_blas_thread():
            return model.classify(ids, images, lengths)


def caption_ids(tokenizer, captions, length):
    """(ids padded to `length`, lengths) of captions, each with its end token."""
    end, padding = tokenizer.special_id("[EOS]"), tokenizer.special_id("[PAD]")
    rows = [[*tokenizer.encode(caption), end] for caption in captions]
    longest = max(map(len, rows))
    if longest > length:
        raise DataError(f"a caption has {longest} tokens, but context_length={length}; use "
                        f"--context-length {longest}.")
    ids = np.array([row + [padding] * (length - len(row)) for row in rows])
    return ids, np.array([len(row) for row in rows])


PRESETS = {
    # Radford et al. (2021), smaller
    "clip": Preset(
        dict(image_size=8, patch_size=2, context_length=12, n_layers=2, n_heads=4, d_model=64,
             d_embedding=32, text_layers=1, text_width=32, dropout=0.1, init_std=0.1),
        dict(steps=1200, batch_size=40, shards=4, optimizer="muon", muon_ratio=3.0,
             learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=50, eval_every=400,
             save_every=400),
        CaptionTask(), "CLIP",
        claims=(more("zero_shot_accuracy", 0.94, beats="zero_shot_accuracy_before"),
                more("new_phrasing_accuracy", 0.94, beats="new_phrasing_accuracy_before"),
                more("new_phrasing_accuracy", beats="guessing"))),
}
