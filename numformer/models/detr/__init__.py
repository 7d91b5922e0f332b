"""DETR (Carion et al. 2020): objects in an image as a set, predicted all at once.

    config    start here: the options
    block     attention with positions in every layer, for encoder and decoder
    heads     the class and the box of every object query
    model     the whole, and its loss with bipartite matching
"""

from numformer.models.detr.block import DETRBlock
from numformer.models.detr.config import DETRConfig
from numformer.models.detr.heads import BoxHead
from numformer.models.detr.model import DETR

__all__ = ["BoxHead", "DETR", "DETRBlock", "DETRConfig"]
