"""Windows, their attention, merged patches, and the Swin Transformer."""

import numpy as np

from numformer.functional import AttentionPattern, shifted_window_mask
from numformer.layers import PatchMerging, WindowAttention
from numformer.layers.positions.window_bias import WindowPositionBias
from numformer.models import Swin, SwinConfig, SwinStage
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case


def config(dtype, **options):
    sizes = dict(image_size=4, patch_size=1, channels=2, n_classes=3, d_model=4, depths="2",
                 heads="2", window=2, mlp_ratio=1.5)
    return SwinConfig(**{**sizes, **options}, dtype=np.dtype(dtype).name)


def swin(**options):
    return lambda rng, dtype: Swin(config(dtype, **options), rng)


def labelled():
    return np.random.default_rng(7).standard_normal((2, 4, 4, 2)), np.array([2, 0])


def windows(**options):
    return lambda rng, dtype: WindowAttention(4, 2, 2, rng, dtype=dtype, **options)


SHIFTED = AttentionPattern(mask=shifted_window_mask(4, 2, 2, 1)[:, None])    # two windows

LAYERS = [
    Case("window attention", windows(), [(2, 2, 4, 4)],
         wrong=[((floats(2, 3, 4, 4),), ValueError, "height=3 is not divisible by window=2"),
                ((floats(2, 2, 4, 5),), ValueError, "C=4"),
                ((floats(2, 4, 4),), ValueError, "(B, height, width, C)")]),
    Case("window attention, shifted", windows(offset=1, qkv_bias=False), [(2, 4, 2, 4)]),
    Case("window attention, shifted, dropout", windows(offset=1, dropout=0.3), [(1, 4, 4, 4)],
         seeded),
    Case("window position bias", lambda rng, dtype: WindowPositionBias(2, 2, rng, dtype=dtype),
         [(2, 2, 4, 3)] * 3, lambda: {"pattern": SHIFTED},
         wrong=[((floats(2, 2, 9, 3),) * 3, ValueError, "(2, 2, 9, 9)"),
                ((floats(2, 3, 4, 3),) * 3, ValueError, "H=3")]),
    Case("patch merging", lambda rng, dtype: PatchMerging(3, rng, dtype=dtype), [(2, 2, 4, 3)],
         wrong=[((floats(2, 3, 4, 3),), ValueError, "height=3"),
                ((floats(2, 2, 4, 4),), ValueError, "C=3")]),
    Case("stage of Swin", lambda rng, dtype: SwinStage(
        config(dtype, image_size=8, d_model=2, depths="1,2", heads="1,1"), 1, rng), [(1, 8, 8, 2)],
         wrong=[((floats(1, 7, 8, 2),), ValueError, "height=7"),
                ((floats(1, 8, 8, 5),), ValueError, "C=2")]),
]

MODELS = [
    Case("Swin", swin(), [(2, 4, 4, 2)], batch=labelled,
         wrong=[((floats(2, 4, 4, 3),), ValueError, "channels=2"),
                ((floats(2, 6, 4, 2),), ValueError, "height=4"),
                ((floats(4, 4, 2),), ValueError, "(B, height, width, channels)")]),
    Case("Swin, two stages, dropout, no norm of patches",
         swin(d_model=2, depths="2,1", heads="1,2", dropout=0.3, qkv_bias=False,
              patch_norm=False),
         [(1, 4, 4, 2)], seeded, batch=labelled),
    Case("Swin, no shifts", swin(shifted=False, feedforward="silu", patch_size=2, window=1),
         [(2, 4, 4, 2)], batch=labelled),
]
