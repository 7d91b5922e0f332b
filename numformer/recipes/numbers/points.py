"""Point clouds: shapes from points in no order, by a Transformer without positions."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import SHAPES, Batch, labelled_batches, shape_points
from numformer.finite import predicted_classes
from numformer.recipes.numbers.checksum import checksum
from numformer.recipes.numbers.nearest_clouds import nearest_by_distance, nearest_by_profile
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.task import Task
from numformer.seeds import CONTEXTS, branch
from numformer.training import accuracy

HELD_OUT, KNOWN, POINTS = 600, 1000, 40               # clouds to measure and to compare; their T
HELD_OUT_SEED = 10**9                                 # training seeds are below it
SHOWN = 4


@dataclass(frozen=True)
class Clouds:
    """Clouds with their shapes: the held-out ones, as those of training are sampled in every step.

    Parameters
    ----------
    points : ndarray, shape (N, T, 3)
    labels : ndarray of int, shape (N,)
    name : str
    """

    points: np.ndarray
    labels: np.ndarray
    name: str = "points on shapes"

    def __len__(self):
        """Points in all."""
        return self.points.shape[0] * self.points.shape[1]

    @property
    def sha256(self):
        """Checksum of all points."""
        return checksum(self.points)


class CloudStream:
    """Batches of new clouds without end: a pure function of the seed and the step."""

    def __init__(self, batch_size, seed, dtype):
        self.batch_size, self.seed, self.dtype = batch_size, seed, dtype

    def batch(self, step):
        """The batch of a step."""
        clouds = clouds_of(self.batch_size, branch(self.seed, CONTEXTS, step))
        return Batch(inputs=clouds.points.astype(self.dtype), labels=clouds.labels)


class PointTask(Task):
    """Tell shapes by points on them; measured by the accuracy on held-out clouds."""

    name = "point-clouds"
    unit = "nats per cloud"
    from_the_data = frozenset({"d_point", "n_classes"})
    has_tokens = False

    def load(self, data):
        return super().load(data) if data is not None else held_out()

    def tokenizer(self, dataset):
        """None: points are no tokens."""
        return None

    def options(self, tokenizer):
        return {"d_point": 3, "n_classes": len(SHAPES)}

    def stream(self, dataset, tokenizer, config, training):
        return CloudStream(training.batch_size * training.accumulation, training.seed, config.dtype)

    def validation(self, dataset, tokenizer, config, blocks=None):
        return labelled_batches(dataset.points[:blocks].astype(config.dtype),
                                dataset.labels[:blocks])

    def sample(self, model, tokenizer, rng):
        """Predictions for a few held-out clouds."""
        clouds = held_out()
        chosen = rng.choice(len(clouds.labels), SHOWN, replace=False)
        with one_blas_thread():
            logits = model(clouds.points[chosen].astype(model.config.dtype))
        found = predicted_classes(self.name, logits, model)
        return "; ".join(f"a {SHAPES[label]} (cloud {k}), predicted as {SHAPES[one]}"
                         for k, label, one in zip(chosen, clouds.labels[chosen], found))

    def pictures(self, model, tokenizer):
        """A cloud in two orders of its points, and what the model says of both."""
        from numformer.plots import cloud_orders

        clouds = held_out()
        points = clouds.points[:1].astype(model.config.dtype)
        order = np.random.default_rng(0).permutation(points.shape[1])
        with one_blas_thread():
            logits = np.concatenate([model(points), model(points[:, order])])
        return {"orders.png": cloud_orders(points[0], order, logits, SHAPES)}

    def measure(self, model, tokenizer, dataset):
        """Accuracy on held-out clouds, the model's and that of the nearest known cloud.

        Also how far its logits move at most when the points of every cloud are shuffled, relative
        to the largest of them: rounding alone.
        """
        batches = self.validation(dataset, tokenizer, model.config)
        order = np.random.default_rng(0).permutation(dataset.points.shape[1])
        with one_blas_thread():
            logits, shuffled = (model(points) for points in (
                batches[0].inputs, np.ascontiguousarray(batches[0].inputs[:, order])))
        known = clouds_of(KNOWN, branch(HELD_OUT_SEED, CONTEXTS, 1))
        found = {"nearest_profile": nearest_by_profile, "nearest_cloud": nearest_by_distance}
        return {"accuracy": accuracy(model, batches),
                **{name: float((known.labels[nearest(dataset.points, known.points)]
                                == dataset.labels).mean()) for name, nearest in found.items()},
                "moved_by_another_order": float(np.abs(shuffled - logits).max()
                                                / np.abs(logits).max())}


def clouds_of(n, rng):
    """Sample n `Clouds`."""
    labels = rng.integers(0, len(SHAPES), n)
    return Clouds(shape_points(labels, POINTS, rng), labels)


@lru_cache(maxsize=1)
def held_out():
    """The held-out `Clouds`."""
    return clouds_of(HELD_OUT, branch(HELD_OUT_SEED, CONTEXTS))


PRESETS = {
    # Guo et al. (2021), smaller, and without their sampling of neighbours
    "points": Preset(
        dict(context_length=POINTS, n_layers=2, n_heads=4, d_model=64, init_std=0.05),
        dict(steps=400, batch_size=32, shards=2, optimizer="muon", muon_ratio=3.0,
             learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=20, eval_every=200,
             save_every=200),
        PointTask(), "PointCloudClassifier",
        claims=(more("accuracy", beats="nearest_profile"),
                more("accuracy", beats="nearest_cloud"),
                Claim("moved_by_another_order", 1e-5))),
}
