"""An HTML page to explore attention: one file, no network access, no libraries."""

from numformer.explorer.page import Explorer, explore

__all__ = ["Explorer", "explore"]
