"""The Swin Transformer: attention within windows that are shifted from block to block."""

from numformer.models.swin.config import SWIN_CONFIGS, SwinConfig
from numformer.models.swin.model import Swin, SwinStage

__all__ = ["SWIN_CONFIGS", "Swin", "SwinConfig", "SwinStage"]
