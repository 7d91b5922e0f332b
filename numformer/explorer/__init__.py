"""A page to look at attention with: one HTML file, without a network and without a library."""

from numformer.explorer.page import Explorer, explore

__all__ = ["Explorer", "explore"]
