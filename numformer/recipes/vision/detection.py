"""DETR in small: find and recognize the digits of a scene."""

import hashlib
from dataclasses import dataclass

import numpy as np

from numformer.analysis import attention_by_layer, mean_average_precision
from numformer.backend import one_blas_thread
from numformer.data import (
    DataError, Digits, Scenes, SceneStream, digit_scenes, load_digits, scene_batch)
from numformer.functional import IGNORE_INDEX, box_corners, box_iou
from numformer.recipes.preset import Preset, more
from numformer.recipes.task import Task
from numformer.recipes.vision.components import component_finds

SIZE = 24                                                             # of a canvas
HELD_OUT = 400                                                        # scenes
BATCH = 100                                                           # of them at a time
SHOWN = 4                                                             # scenes in a picture
SURE = 0.5                                                            # probability of what is shown


@dataclass(frozen=True)
class SceneDigits:
    """The digits that scenes are made of, and the scenes of held-out digits.

    Parameters
    ----------
    digits : Digits
    held_out : Scenes
    name : str
    """

    digits: Digits
    held_out: Scenes
    name: str = "scenes of digits drawn by rule"

    def __len__(self):
        """Digits in all."""
        return len(self.digits.train_labels) + len(self.digits.test_labels)

    @property
    def sha256(self):
        """Checksum of all digits and held-out scenes."""
        checksum = hashlib.sha256()
        for array in (*self.digits, *self.held_out):
            checksum.update(np.ascontiguousarray(array).tobytes())
        return checksum.hexdigest()


class DetectionTask(Task):
    """Find digits; measured by average precision at an overlap of one half, in new scenes.

    Scenes to train on are new in every step, from training digits; held-out ones have test digits.
    """

    name = "scenes"
    unit = "per scene"
    from_the_data = frozenset({"channels", "n_classes"})
    has_tokens = False

    def load(self, data):
        if data is not None:
            return super().load(data)
        digits = load_digits()
        rng = np.random.default_rng(0)                # the same scenes for all seeds of a run
        return SceneDigits(digits, digit_scenes(digits.test_images, digits.test_labels, HELD_OUT,
                                                rng, SIZE))

    def tokenizer(self, dataset):
        """None: images have no tokens."""
        return None

    def options(self, tokenizer):
        return {"channels": 1, "n_classes": 10}

    def stream(self, dataset, tokenizer, config, training):
        self._check(config)
        return SceneStream(dataset.digits.train_images, dataset.digits.train_labels,
                           training.batch_size * training.accumulation, training.seed, SIZE,
                           config.dtype)

    def validation(self, dataset, tokenizer, config, blocks=None):
        self._check(config)
        scenes = Scenes(*(array[:blocks] for array in dataset.held_out))
        return [scene_batch(Scenes(*(array[first:first + BATCH] for array in scenes)), config.dtype)
                for first in range(0, len(scenes.labels), BATCH)]

    def sample(self, model, tokenizer, rng):
        """What is found in a few held-out scenes, and what is there."""
        scenes = self.load(None).held_out
        lines = []
        for i in rng.choice(HELD_OUT, SHOWN, replace=False):
            (labels, scores, _), = self.finds(model, scenes.images[i:i + 1])
            there = scenes.labels[i][scenes.labels[i] != IGNORE_INDEX]
            seen = sorted(labels[scores >= SURE].tolist())
            lines.append(f"there: {' '.join(map(str, sorted(there.tolist())))}; "
                         f"found: {' '.join(map(str, seen))}")
        return "\n".join(lines)

    def finds(self, model, images):
        """For each image (labels, scores, corners in pixels) of all queries."""
        found = []
        with one_blas_thread():
            for first in range(0, len(images), BATCH):
                part = images[first:first + BATCH].astype(model.config.dtype)
                for labels, scores, boxes in zip(*model.detect(part)):
                    found.append((labels, scores, box_corners(boxes)[0] * SIZE))
        return found

    def measure(self, model, tokenizer, dataset):
        """Average precision, mean of the digits; and that of two detectors that learn no boxes.

        Both take connected components of ink as boxes. One classifies them by the nearest training
        digit, the other takes all for the most frequent digit. Average precision depends little on
        finds of low probability, such as a second one of an object; so the precision and recall of
        finds that are more probable than not are measured, too.
        """
        scenes, digits = dataset.held_out, dataset.digits
        objects = objects_of(scenes)
        with_nearest = component_finds(scenes.images, digits.train_images, digits.train_labels)
        frequent = np.bincount(digits.train_labels).argmax()
        of_one = [(np.full_like(labels, frequent), scores, boxes)
                  for labels, scores, boxes in with_nearest]
        found = self.finds(model, scenes.images)
        one_class = [(np.zeros_like(labels), scores, boxes) for labels, scores, boxes in found]
        places = [(np.zeros_like(labels), boxes) for labels, boxes in objects]
        precision, recall = precision_and_recall(found, objects)
        return {"average_precision": mean_average_precision(found, objects, 10),
                "components_nearest_digit": mean_average_precision(with_nearest, objects, 10),
                "components_frequent_digit": mean_average_precision(of_one, objects, 10),
                "average_precision_of_any_digit": mean_average_precision(one_class, places, 1),
                "components_any_digit": mean_average_precision(
                    [(np.zeros_like(labels), scores, boxes)
                     for labels, scores, boxes in with_nearest], places, 1),
                "precision_of_sure_finds": precision, "recall_of_sure_finds": recall}

    def pictures(self, model, tokenizer):
        """Boxes found and true in held-out scenes, and what each query attends to in one."""
        from numformer.plots import boxes_in_images, query_attention

        scenes = self.load(None).held_out
        some = Scenes(*(array[:2 * SHOWN] for array in scenes))
        found = [tuple(array[scores >= SURE] for array in (labels, scores, boxes))
                 for labels, scores, boxes in self.finds(model, some.images)]
        pictures = {"boxes.png": boxes_in_images(some.images, found, objects_of(some))}
        if model.config.n_points:                     # no query has weights for all patches
            return pictures
        images = some.images.astype(model.config.dtype)
        name = f"decoder.{model.config.decoder_layers - 1}.cross_attention"
        weights = attention_by_layer(model, images[:1])[name][0].mean(axis=0)          # (Q, S)
        (labels, scores, boxes), = self.finds(model, images[:1])
        return pictures | {
            "queries.png": query_attention(some.images[0], weights, labels, scores, boxes)}

    def _check(self, config):
        if config.image_size != SIZE:
            raise DataError(f"scenes are {SIZE} x {SIZE} pixels, but the model takes "
                            f"{config.image_size} x {config.image_size}; leave --image-size out.")
        if config.n_queries < 4:
            raise DataError(f"scenes have up to 4 digits, but n_queries={config.n_queries}; use "
                            "--n-queries 4 or more.")


def objects_of(scenes):
    """For each scene (labels, corners in pixels) of its objects."""
    real = scenes.labels != IGNORE_INDEX
    corners = box_corners(scenes.boxes)[0] * scenes.images.shape[1]
    return [(labels[there], its_corners[there])
            for labels, its_corners, there in zip(scenes.labels, corners, real)]


def precision_and_recall(found, objects, overlap=0.5):
    """(precision, recall) of the finds with a probability of one half or more.

    A find is right if its class is that of an object that it overlaps enough, and that no surer
    find has had.

    Examples
    --------
    >>> box = np.array([[0.0, 0.0, 2.0, 2.0]])
    >>> twice = np.array([7, 7]), np.array([0.9, 0.8]), np.concatenate([box, box])
    >>> precision_and_recall([twice], [(np.array([7]), box)])
    (0.5, 1.0)
    """
    right, n_finds, n_objects = 0, 0, sum(len(labels) for labels, _ in objects)
    for (labels, scores, boxes), (true, corners) in zip(found, objects):
        is_free = np.ones(len(true), bool)
        for k in np.argsort(-scores, kind="stable")[:(scores >= SURE).sum()]:
            fits = box_iou(boxes[k:k + 1], corners)[0] * (is_free & (true == labels[k]))
            if len(true) and fits.max() >= overlap:
                is_free[fits.argmax()] = False
            n_finds += 1
        right += int((~is_free).sum())
    return right / max(n_finds, 1), right / max(n_objects, 1)


PRESETS = {
    # Carion et al. (2020), smaller. Digits of a scene often touch; connected components take such
    # digits for one object, and this is what a trained detector gains on them
    "detr": Preset(
        dict(image_size=SIZE, patch_size=3, n_queries=12, n_heads=4, d_model=64, d_hidden=128,
             encoder_layers=2, decoder_layers=2, init_std=0.1),
        dict(steps=2000, batch_size=32, optimizer="muon", muon_ratio=3.0, learning_rate=3e-3,
             min_learning_rate=0.0, warmup_steps=50, eval_every=500, save_every=500),
        DetectionTask(), "DETR",
        claims=(more("average_precision", 0.85, beats="components_nearest_digit"),
                more("average_precision_of_any_digit", beats="components_any_digit"))),
}
