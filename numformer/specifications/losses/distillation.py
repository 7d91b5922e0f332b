"""Distillation: what a student learns from a teacher."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- distillation_loss ---------------------------------------------------------------------------

def predictions(**options):
    def make(rng):
        N, V = sizes(rng, 2)
        s, t = 2 * rng.standard_normal((2, N + 1, V + 1))
        return {"logits": s, "teacher_logits": t}, options
    return make


def probabilities(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def distillation(scale=lambda T: T, count=lambda x: x.size // x.shape[-1], student=1.0,
                 teacher=1.0, soft=(True, True)):
    """A backward of the distillation loss.

    `scale` is the factor of the temperature; `soft` says whether the student's and the teacher's
    logits are divided by it.
    """
    def gradients(dloss, logits, teacher_logits, temperature=1.0):
        q, p = (probabilities(x / temperature if softened else x)
                for x, softened in zip((logits, teacher_logits), soft))
        return dloss * scale(temperature) * (student * q - teacher * p) / count(logits)
    return gradients


TEACHER = np.random.default_rng(2).standard_normal((3, 4))


specify(
    F.distillation_loss, ("logits",),
    {"plain": predictions(), "temperature=3": predictions(temperature=3.0)},
    cases=[Pair(f"distillation loss{name}", [(3, 4)], after=(TEACHER,), options=options)
           for name, options in (("", {}), (", soft", dict(temperature=3.0)),
                                 (", hard", dict(temperature=0.5)))],
    mistakes=[
        ("the factor T is missing: T squared of the loss, divided by the T in softmax(s / T)",
         distillation(scale=lambda T: 1.0)),
        ("the factor is T squared, but must be T: softmax(s / T) divides by T once",
         distillation(scale=lambda T: T * T)),
        ("the factor T squared of the loss is missing", distillation(scale=lambda T: 1 / T)),
        ("the teacher's probabilities are not subtracted", distillation(teacher=0.0)),
        ("the teacher's logits are not divided by the temperature",
         distillation(soft=(True, False))),
        ("the student's logits are not divided by the temperature",
         distillation(soft=(False, True))),
        ("the mean over the vectors of logits is missing", distillation(count=lambda x: 1)),
        ("the mean is over vectors of logits, not over all logits",
         distillation(count=lambda x: x.size))],
    last_axes={"logits": 1, "teacher_logits": 1},
    hints=(
        "Soften both predictions by the temperature, and measure how far the student's q is from "
        "the teacher's p: the KL divergence, times T^2.",
        "Divide both logits by T before the log-softmax over the last axis. The divergence sums p "
        "(log p - log q) over the classes.",
        "loss is T * T / N times the sum of p * (log_p - log_q), where N counts vectors: "
        "logits.size // V."),
    backward_hints=(
        "The teacher is constant, and p sums to 1: with respect to the softened logits, the "
        "gradient of -sum p log q is q - p.",
        "Dividing the logits by T adds a factor 1 / T, and the loss has T^2: together T. The mean "
        "over vectors gives 1 / N.",
        "dlogits = (q - p) * dloss * T / N, with q = np.exp(log_q) from the student, softened by "
        "T like p."))


# ---- imitation_loss ------------------------------------------------------------------------------

def features(rng):
    B, T, C = sizes(rng, 3)
    x, teacher = rng.standard_normal((2, B, T, C))
    return {"x": x, "teacher": teacher}, {}


def imitation(factor=2.0, count=lambda x: x.size):
    """A backward of the imitation loss, with another factor of the difference, or count."""
    def gradients(dloss, x, teacher):
        return dloss * factor * (x - teacher) / count(x)
    return gradients


specify(
    F.imitation_loss, ("x",),
    {"plain": features},
    mistakes=[
        ("the factor 2 of the square is missing", imitation(1.0)),
        ("the mean over all elements is missing", imitation(count=lambda x: 1)),
        ("the mean is over all elements, not over vectors",
         imitation(count=lambda x: x.size // x.shape[-1]))],
    last_axes={"x": 1, "teacher": 1},
    hints=(
        "The difference of the two features, squared, and averaged over all numbers.",
        "n is x.size: all axes are averaged, vectors and coordinates alike.",
        "With difference = x - teacher, square it entry by entry and take the mean over "
        "everything."),
    backward_hints=(
        "Each x_i enters one square alone: no sum. The teacher is a constant and gets no "
        "gradient.",
        "The derivative of (x_i - t_i)^2 is 2 (x_i - t_i): the sign is that of student minus "
        "teacher. Do not forget 1 / n.",
        "dx is difference times 2 dloss / n, with n = x.size."))
