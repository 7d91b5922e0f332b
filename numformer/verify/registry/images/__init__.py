"""Image models other than the Vision Transformer."""

from numformer.verify.registry.images import convolutions, deformable, detection, swin

PAGES = (convolutions, swin, detection, deformable)
LAYERS, MODELS = ([case for page in PAGES for case in getattr(page, name)]
                  for name in ("LAYERS", "MODELS"))
