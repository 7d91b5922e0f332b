"""An HTML page to explore a model, which it can compute: one file, no network, no libraries."""

from numformer.explorer.live import live_model, why_not_live
from numformer.explorer.page import Explorer, explore

__all__ = ["Explorer", "explore", "live_model", "why_not_live"]
