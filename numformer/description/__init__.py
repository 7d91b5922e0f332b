"""Layers and models describe themselves: what diagrams, counts and costs read.

A layer has `describe`, which returns a `Description`; where a diagram of one block shows what is
inside it, also `describe_parts`. A model has `describe_model` and `costs`.
"""

from numformer.description.costs import costs_of_images, costs_per_token, flops_of, n_parameters
from numformer.description.parts import (
    Architecture, Box, Column, Description, Residual, Row, Stack, boxes_of, by, to)
from numformer.description.reader import (
    MASKED, OF_COSINE, OF_TOKEN, TOKENS, VECTORS, Reader, images_of, stacked)

__all__ = ["Architecture", "Box", "Column", "Description", "MASKED", "OF_COSINE", "OF_TOKEN",
           "Reader", "Residual", "Row", "Stack", "TOKENS", "VECTORS", "boxes_of", "by",
           "costs_of_images", "costs_per_token", "flops_of", "images_of", "n_parameters", "stacked",
           "to"]
