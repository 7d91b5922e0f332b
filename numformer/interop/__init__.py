"""Published weights in and out: a folder becomes a model of ours, and a model such a folder."""

from numformer.interop.families import FAMILIES
from numformer.weights.family import Family
from numformer.interop.folder import family_of, gradients, load, save

__all__ = ["FAMILIES", "Family", "family_of", "gradients", "load", "save"]
