"""Answers of students and engineers: RIGHT, WRONG and EDGES, lists of `Answer`."""

from answers import (                                                 # noqa: F401: they register
    edges_of_numbers, edges_of_shapes, right_activations, right_attention, right_losses,
    right_norms, right_products, wrong)
from answers.corpus import EDGES, RIGHT, WRONG, Answer, error, fits

__all__ = ["EDGES", "RIGHT", "WRONG", "Answer", "error", "fits"]
