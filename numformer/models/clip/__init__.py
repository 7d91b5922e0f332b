"""CLIP (Radford et al. 2021): texts and images in one space of vectors.

    config           start here: the options, of which the first half is those of all Transformers
    text_encoder     a causal Transformer; the output at the end token is the vector of a text
    model            both encoders, cosines over a temperature, the loss, and classification

The image encoder is the `VisionTransformer`.
"""

from numformer.models.clip.config import CLIP_CONFIGS, CLIPConfig, CLIPTextConfig
from numformer.models.clip.model import CLIP
from numformer.models.clip.text_encoder import CLIPTextEncoder

__all__ = ["CLIP", "CLIPConfig", "CLIPTextConfig", "CLIPTextEncoder", "CLIP_CONFIGS"]
