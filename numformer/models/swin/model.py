"""The Swin Transformer: windows of attention, shifted from block to block, merged between stages.
"""

import numpy as np

from numformer.checks import check_array
from numformer.description import Column, costs_of_images, images_of, stacked
from numformer.layers import (
    Dropout, FeedForward, Identity, LayerNorm, Linear, PatchEmbedding, PatchMerging, Pooling,
    ResidualBranch, SelfAttentionBranch, TransformerBlock, WindowAttention)
from numformer.models.swin.config import SwinConfig
from numformer.models.transformer import CrossEntropyModel, Stack
from numformer.parameter import Layer, normal


class SwinStage(Layer):
    """Blocks of one resolution, (B, height, width, C) to the same, after merging if there is any.

    Parameters
    ----------
    config : SwinConfig
    number : int
        Which stage, from 0 on. All but the first begin with `PatchMerging`.
    rng : numpy.random.Generator or None

    Examples
    --------
    >>> from numformer.models import SwinConfig
    >>> config = SwinConfig(image_size=56, depths=(2, 2), heads=(3, 6))
    >>> stage = SwinStage(config, 1, np.random.default_rng(0))
    >>> stage(np.ones((1, 14, 14, 96), np.float32)).shape
    (1, 7, 7, 192)
    """

    def __init__(self, config, number, rng):
        c, dtype = config, np.dtype(config.dtype)
        L, H, C, side, window = c.stages[number]
        self.merging = (PatchMerging(C // 2, rng, c.epsilon, c.init_std, dtype) if number
                        else Identity())
        self.blocks = Stack()
        for n in range(L):
            # a single window cannot be shifted
            offset = window // 2 if n % 2 and c.shifted and side > window else 0
            attention = WindowAttention(C, H, window, rng, offset, c.qkv_bias, c.dropout,
                                        c.init_std, c.init_std, dtype)
            feedforward = FeedForward(C, int(c.mlp_ratio * C), c.feedforward, rng, std=c.init_std,
                                      output_std=c.init_std, dtype=dtype)
            norms = [LayerNorm(C, epsilon=c.epsilon, dtype=dtype) for _ in range(2)]
            self.blocks.append(TransformerBlock(
                attention=SelfAttentionBranch(norms[0], attention, dropout=c.dropout),
                feedforward=ResidualBranch(norms[1], feedforward, dropout=c.dropout)))

    def forward(self, x, rng=None):
        x, saved_merging = self.merging.forward(x)                    # (B, height, width, C)
        x, saved_blocks = self.blocks.forward(x, rng=rng)

        saved = (saved_merging, saved_blocks)
        return x, saved

    def backward(self, dy, saved):
        saved_merging, saved_blocks = saved

        # x = blocks(merging(x))
        return self.merging.backward(self.blocks.backward(dy, saved_blocks), saved_merging)


class Swin(CrossEntropyModel):
    r"""Classify images by attention within windows.

    .. math::

        x^0 = \mathrm{norm}(\mathrm{patches}(\mathrm{image})), \qquad
        x^{s+1} = \mathrm{stage}_s(x^s), \qquad
        z = \langle \mathrm{norm}(x^S) \rangle\, W + b

    Every second block shifts its windows by half of one, so that vectors on both sides of a border
    can attend to each other. Between stages, 2 x 2 vectors are merged into one: later windows cover
    larger parts of the image. Sizes that patches, windows or merging do not divide are refused;
    some published code fills such images up with zeros instead.

    Parameters
    ----------
    config : SwinConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Liu et al. (2021), "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
    section 3 and figure 3. Stochastic depth belongs to the paper's training, and is left out. The
    norm of the embedded patches is in the published code alone.

    Examples
    --------
    >>> from numformer.models import SwinConfig
    >>> config = SwinConfig(image_size=8, patch_size=1, channels=1, n_classes=10, d_model=8,
    ...                     depths=(2, 2), heads=(1, 2), window=4)
    >>> model = Swin(config, np.random.default_rng(0))
    >>> images, labels = np.zeros((3, 8, 8, 1), np.float32), np.array([3, 1, 4])
    >>> model(images).shape                                           # logits, (B, n_classes)
    (3, 10)
    >>> loss, saved = model.loss((images, labels))
    >>> model.loss_backward(saved)
    """

    config_class = SwinConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.patches = PatchEmbedding(c.image_size, c.patch_size, c.channels, c.d_model, rng,
                                      "convolution", dtype=dtype)
        # Random too: an empty patch would have zero variance, and every LayerNorm would multiply
        # its gradient by 1 / sqrt(epsilon) = 316, which overflows within a few blocks.
        self.patches.bias = normal(rng, (c.d_model,), c.init_std, dtype)
        self.embedding_norm = (LayerNorm(c.d_model, epsilon=c.epsilon, dtype=dtype) if c.patch_norm
                               else Identity())
        self.dropout = Dropout(c.dropout)
        self.stages = Stack(SwinStage(c, n, rng) for n in range(len(c.stages)))
        width = c.stages[-1][2]
        self.norm = LayerNorm(width, epsilon=c.epsilon, dtype=dtype)
        self.pooling = Pooling("mean")
        self.head = Linear(width, c.n_classes, rng, std=c.init_std, dtype=dtype)

    def forward(self, images, rng=None):
        """Logits of the classes.

        Parameters
        ----------
        images : ndarray, shape (B, height, width, channels)
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple
        """
        c = self.config
        check_array("Swin", "images", images, "(B, height, width, channels)",
                    height=c.image_size, width=c.image_size, channels=c.channels)
        x, saved_patches = self.patches.forward(images)               # (B, T, C)
        x, saved_embedding_norm = self.embedding_norm.forward(x)
        x, saved_dropout = self.dropout.forward(x, rng)
        side = c.stages[0][3]
        x = x.reshape(len(x), side, side, -1)                         # (B, side, side, C)
        x, saved_stages = self.stages.forward(x, rng)
        shape, x = x.shape, x.reshape(len(x), -1, x.shape[-1])        # (B, T, C_L)
        x, saved_norm = self.norm.forward(x)
        x, saved_pooling = self.pooling.forward(x)                    # (B, C_L)
        logits, saved_head = self.head.forward(x)                     # (B, n_classes)

        saved = (saved_patches, saved_embedding_norm, saved_dropout, saved_stages, shape,
                 saved_norm, saved_pooling, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        """The gradient of the images, (B, height, width, channels)."""
        (saved_patches, saved_embedding_norm, saved_dropout, saved_stages, shape, saved_norm,
         saved_pooling, saved_head) = saved

        # logits = head(pooling(norm(x)))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.pooling.backward(dx, saved_pooling)                 # (B, T, C)
        dx = self.norm.backward(dx, saved_norm).reshape(shape)        # (B, height, width, C)

        # x = stages(x)
        dx = self.stages.backward(dx, saved_stages)

        # x = dropout(embedding_norm(patches(images)))
        dx = self.dropout.backward(dx.reshape(len(dx), -1, dx.shape[-1]), saved_dropout)
        dx = self.embedding_norm.backward(dx, saved_embedding_norm)
        return self.patches.backward(dx, saved_patches)

    def flops_per_image(self):
        """Two for each multiplication of a forward pass, as in `numformer.analysis.count`."""
        c, products = self.config, self.head.weight.data.size
        products += c.stages[0][3] ** 2 * self.patches.weight.data.size
        for stage, (L, _, C, side, window) in zip(self.stages, c.stages):
            T = side * side
            matrices = [part.weight.data.size for _, part in stage.named_layers()
                        if isinstance(part, Linear)]
            products += T * (sum(matrices) + 2 * L * window * window * C)
        return 2 * products

    def costs(self):
        return costs_of_images(self, self.flops_per_image())

    def describe_model(self, reader):
        """Stages: between two of them, four neighbours are merged into one vector."""
        c, parts = self.config, []
        for stage, (_, _, C, side, _) in zip(self.stages, c.stages):
            shape = "B", side, side, C
            if not parts:
                parts += reader.boxes(("B", side * side, C), self.patches, self.embedding_norm)
            parts += reader.boxes(shape, stage.merging)
            parts += stacked([reader.block(block, "Window attention", shape)
                              for block in stage.blocks])
        parts += (*reader.boxes(("B", side * side, C), self.norm),
                  *reader.boxes(("B", C), self.pooling),
                  *reader.boxes(("B", c.n_classes), self.head, name="Linear head"))
        return reader.architecture(Column(images_of(c), tuple(parts)))
