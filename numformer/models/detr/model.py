"""DETR: a set of objects from an image, with one query for each."""

import numpy as np

from numformer.checks import check_array
from numformer.description import Column, Row, costs_of_images, flops_of, images_of, stacked
from numformer.finite import predicted_classes, result_not_finite
from numformer.functional import (
    IGNORE_INDEX, box_loss, box_loss_backward, match_objects, softmax, weighted_cross_entropy,
    weighted_cross_entropy_backward)
from numformer.layers import (
    LayerNorm, LearnedPositions2D, Linear, PatchEmbedding, SinusoidalPositions2D)
from numformer.models.detr.block import DETRBlock
from numformer.models.detr.config import DETRConfig
from numformer.models.detr.heads import BoxHead
from numformer.models.transformer import LossOfParts, for_each_part, n_counted
from numformer.parameter import normal


class DETR(LossOfParts):
    r"""Find all objects of an image at once: Q queries, each for one object or for none.

    .. math::

        m = \mathrm{encoder}(\mathrm{patches}(\mathrm{image}), r), \qquad
        h = \mathrm{decoder}(0, q, m, r), \qquad
        y = [\, h W + b,\; \mathrm{box}(h) \,]

    where q are the trained object queries, which are the positions of the decoder's zeros, and r
    the positions of patches. Nothing says which query is for which object: in training, the
    `match_objects` of the lowest cost decides in every step. All other queries are trained to find
    no object. So a model that has learned this finds no object twice, and nothing has to be
    suppressed afterwards.

    It differs from the paper in its size, in patches instead of a convolutional backbone, and in
    pre-norm blocks. With `n_points` it has the attention of Deformable DETR, to one feature map:
    cost then grows with the number of patches, not with its square. That paper also predicts boxes
    relative to the references, which this model does not.

    Parameters
    ----------
    config : DETRConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", sections 3.1 and 3.2;
    Zhu et al. (2021), "Deformable DETR", section 4.1.

    Examples
    --------
    >>> from numformer.models import DETRConfig
    >>> config = DETRConfig(image_size=8, patch_size=2, channels=1, n_classes=3, n_queries=5,
    ...                     n_heads=2, d_model=16, encoder_layers=1, decoder_layers=2)
    >>> model = DETR(config, np.random.default_rng(0))
    >>> images = np.zeros((2, 8, 8, 1), np.float32)
    >>> model(images).shape                         # Q queries: 3 classes, no object, 4 coordinates
    (2, 5, 8)
    >>> labels, boxes = np.array([[2, 0], [1, IGNORE_INDEX]]), np.full((2, 2, 4), 0.5, np.float32)
    >>> loss, saved = model.loss((images, boxes, labels))             # two objects, and one
    >>> model.loss_backward(saved)
    """

    config_class = DETRConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.patches = PatchEmbedding(c.image_size, c.patch_size, c.channels, c.d_model, rng,
                                      dtype=dtype)
        if c.positions == "learned_2d":
            self.positions = LearnedPositions2D(c.side, c.side, c.d_model, rng, 0.5, dtype)
        else:
            self.positions = SinusoidalPositions2D(c.side, c.side, c.d_model)
        self.encoder = [DETRBlock(c, rng, False) for _ in range(c.encoder_layers)]
        self.encoder_norm = LayerNorm(c.d_model, True, c.epsilon, dtype=dtype)
        self.queries = normal(rng, (c.n_queries, c.d_model), 1.0, dtype)
        self.decoder = [DETRBlock(c, rng, True) for _ in range(c.decoder_layers)]
        self.decoder_norm = LayerNorm(c.d_model, True, c.epsilon, dtype=dtype)
        self.class_head = Linear(c.d_model, c.n_classes + 1, rng, True, None, dtype)
        self.box_head = BoxHead(c.d_model, rng, dtype)

    def forward(self, images, rng=None):
        """Predictions of the last block.

        Parameters
        ----------
        images : ndarray, shape (B, height, width, channels)
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        y : ndarray, shape (B, Q, n_classes + 1 + 4)
            Of every query the logits of the classes, that of "no object" last; then its box: cx,
            cy, width, height, as parts of the image.
        saved : tuple
        """
        return self._forward(images, rng, 1)

    def backward(self, dy, saved):
        """The gradient of the images, (B, height, width, channels)."""
        saved_encoder, saved_decoder, saved_heads = saved
        saved_patches, saved_positions, saved_blocks, saved_memory = saved_encoder
        K, B = self.config.n_classes + 1, saved_heads[0]
        dy = dy.reshape(-1, B, *dy.shape[-2:])                        # (predictions, B, Q, K + 4)

        # y = concatenate([class_head(h), box_head(h)]) of the last blocks
        dlast = [self._heads_backward(dpart, saved_part, K)
                 for dpart, saved_part in zip(dy, saved_heads[1])]

        # x = block(x, queries, memory, r)
        dx, dmemory, dr, first = None, 0.0, 0.0, len(self.decoder) - len(dlast)
        for k in reversed(range(len(self.decoder))):
            if k >= first:
                dx = dlast[k - first] if dx is None else dx + dlast[k - first]
            dx, dqueries, dof_memory, dof_positions = self.decoder[k].backward(
                dx, saved_decoder[k])
            self.queries.grad += dqueries
            dmemory, dr = dmemory + dof_memory, dr + dof_positions

        # memory = encoder_norm(x), x = block(x, r)
        dx = self.encoder_norm.backward(dmemory, saved_memory)
        for block, saved_block in zip(reversed(self.encoder), reversed(saved_blocks)):
            dx, dof_positions = block.backward(dx, saved_block)
            dr = dr + dof_positions

        # r = positions.vectors(), x = patches(images)
        self.positions.vectors_backward(dr[None], saved_positions)
        return self.patches.backward(dx, saved_patches)

    def loss_counts(self, batch):
        """The sum of the weights of all queries' classes, and the number of objects.

        Every object is matched with a query; "no object" is the class of the other queries.
        """
        images, _, labels = batch
        n_objects = n_counted(labels)
        others = len(images) * self.config.n_queries - n_objects
        return n_objects + self.config.no_object_weight * others, n_objects

    def loss_parts(self, batch, rng=None):
        r"""The loss of the best matching: classes of all queries, and boxes of the matched ones.

        .. math:: L = \sum_\ell \left( w_c\, L_{\mathrm{class}} + L_{\mathrm{box}} \right)

        Parameters
        ----------
        batch : (images, boxes, labels)
            Images as in `forward`; boxes (B, M, 4); labels (B, M), with `IGNORE_INDEX` where an
            image has fewer than M objects. An image without any has the loss of classes alone.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        losses : (of classes, of boxes)
            The mean over the queries by weight of their class, and over the boxes: 0 if there are
            none. With `auxiliary_losses` the sum over the blocks of the decoder.
        saved : tuple
        """
        c, (images, boxes, labels) = self.config, batch
        check_array("DETR", "boxes", boxes, "(B, M, coordinates)", B=len(images),
                    M=labels.shape[-1], coordinates=4)
        y, saved_forward = self._forward(images, rng,
                                         c.decoder_layers if c.auxiliary_losses else 1)
        blocks = y.reshape(-1, len(images), *y.shape[-2:])            # (predictions, B, Q, K + 4)
        parts = [self._set_loss(part, boxes, labels) for part in blocks]
        losses = [sum(of_kind) for of_kind in zip(*(losses for losses, _ in parts))]

        saved = (saved_forward, y.shape, [saved_part for _, saved_part in parts])
        return losses, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter; `dloss` as in `LossOfParts`."""
        saved_forward, shape, saved_parts = saved
        c, K = self.config, self.config.n_classes + 1
        dclass, dbox = for_each_part(dloss, 2)
        dy = []
        for saved_class, saved_box, chosen, part in saved_parts:
            dpart = np.zeros_like(part)

            # losses[0] = class_weight * weighted_cross_entropy(logits)
            if saved_class is not None:
                dpart[..., :K] = weighted_cross_entropy_backward(dclass * c.class_weight,
                                                                 saved_class)

            # losses[1] = box_loss(boxes[chosen])
            dpart[(*chosen, slice(K, None))] = box_loss_backward(dbox, saved_box)
            dy.append(dpart)
        self.backward(np.stack(dy).reshape(shape), saved_forward)

    def evaluation_parts(self, batch):
        """The losses of the last block alone, without dropout."""
        images, boxes, labels = batch
        return self._set_loss(self.forward(images)[0], boxes, labels)[0]

    def evaluation_loss(self, batch):
        """The sum of `evaluation_parts`."""
        return sum(self.evaluation_parts(batch))

    def detect(self, images):
        """The objects that are found: for every query its class, probability and box.

        Parameters
        ----------
        images : ndarray, shape (B, height, width, channels)

        Returns
        -------
        labels : ndarray of int, shape (B, Q)
            The most probable class; "no object" is none of them.
        scores : ndarray, shape (B, Q)
            Its probability.
        boxes : ndarray, shape (B, Q, 4)
            cx, cy, width, height, as parts of the image.

        Raises
        ------
        NotFinite
            If the logits or boxes are not finite.
        """
        y, K = self.forward(images)[0], self.config.n_classes
        p, boxes = softmax(y[..., :K + 1])[0][..., :K], y[..., K + 1:]
        if not np.isfinite(boxes).all():
            raise result_not_finite("DETR: the boxes", self)
        return predicted_classes("DETR", p, self), p.max(axis=-1), boxes

    def _forward(self, images, rng, n_last):
        """`forward`, with the predictions of the last blocks (n_last, B, Q, ..) if there are two
        or more."""
        x, saved_patches = self.patches.forward(images)               # (B, S, C)
        r, saved_positions = self.positions.vectors(x.shape[1], 0, x.real.dtype)      # (S, C)
        saved_encoder, saved_decoder, predictions = [], [], []
        for block in self.encoder:
            x, saved_block = block.forward(x, r, rng=rng)
            saved_encoder.append(saved_block)
        memory, saved_memory = self.encoder_norm.forward(x)           # (B, S, C)
        x = np.zeros((len(x), *self.queries.data.shape), x.dtype)     # (B, Q, C)
        for block in self.decoder:
            x, saved_block = block.forward(x, self.queries.data, memory, r, rng)
            saved_decoder.append(saved_block)
            if len(saved_decoder) > len(self.decoder) - n_last:
                predictions.append(self._heads(x))
        y = predictions[0][0] if n_last == 1 else np.stack([part for part, _ in predictions])

        saved = ((saved_patches, saved_positions, saved_encoder, saved_memory), saved_decoder,
                 (len(x), [saved_part for _, saved_part in predictions]))
        return y, saved

    def _heads(self, x):
        """Classes and boxes of the output of a block."""
        h, saved_norm = self.decoder_norm.forward(x)                  # (B, Q, C)
        z, saved_class = self.class_head.forward(h)                   # (B, Q, K)
        b, saved_box = self.box_head.forward(h)                       # (B, Q, 4)

        saved = (saved_norm, saved_class, saved_box)
        return np.concatenate([z, b], axis=-1), saved

    def _heads_backward(self, dy, saved, K):
        saved_norm, saved_class, saved_box = saved

        # y = concatenate([class_head(h), box_head(h)]), with h = decoder_norm(x)
        dh = self.class_head.backward(np.ascontiguousarray(dy[..., :K]), saved_class)
        dh = dh + self.box_head.backward(np.ascontiguousarray(dy[..., K:]), saved_box)
        return self.decoder_norm.backward(dh, saved_norm)

    def _set_loss(self, y, boxes, labels):
        """The losses (of classes, of boxes) of the predictions (B, Q, K + 4) of one block."""
        c, K = self.config, self.config.n_classes + 1
        real, classes = labels != IGNORE_INDEX, np.full(y.shape[:2], K - 1)
        images, queries = [], []
        for b in range(len(y)):
            chosen = match_objects(y[b, :, :K], y[b, :, K:], labels[b][real[b]],
                                   boxes[b][real[b]], c.class_weight, c.l1_weight, c.giou_weight)
            classes[b, chosen] = labels[b][real[b]]
            images, queries = [*images, *[b] * len(chosen)], [*queries, *chosen]
        chosen = np.array(images, np.intp), np.array(queries, np.intp)
        weights = np.ones(K, y.real.dtype)
        weights[-1] = c.no_object_weight
        of_classes, saved_class = 0.0, None
        if weights[classes].any():
            of_classes, saved_class = weighted_cross_entropy(y[..., :K], classes, weights)
        of_boxes, saved_box = box_loss(y[(*chosen, slice(K, None))],
                                       boxes[real].astype(y.real.dtype), c.l1_weight,
                                       c.giou_weight)
        losses = (c.class_weight * of_classes, of_boxes)

        saved = (saved_class, saved_box, chosen, y)
        return losses, saved

    def costs(self):
        return costs_of_images(self, self.flops_per_image())

    def flops_per_image(self):
        """Two for each multiplication of a forward pass, as in `numformer.analysis.count`.

        The keys and values of cross-attention are those of the patches, counted for each query; the
        matching of the loss is left out, and so is the interpolation of deformable attention.
        """
        S, Q = self.config.side ** 2, self.config.n_queries
        flops = 2 * S * self.patches.weight.data.size
        flops += sum(S * flops_of(block, S) for block in self.encoder)
        for block in self.decoder:
            flops += Q * (flops_of(block.attention, Q) + flops_of(block.feedforward, 0))
            cross = block.cross_attention
            if self.config.n_points:
                of_patches = flops_of(cross.deformable.value, 0)
                flops += Q * (flops_of(cross, 0) - of_patches) + S * of_patches
            else:
                flops += Q * (flops_of(cross.query, 0) + flops_of(cross.output, 0)
                              + 2 * cross.describe().keys * S)
                flops += S * (flops_of(cross.key, 0) + flops_of(cross.value, 0))
        return flops + Q * (flops_of(self.class_head, 0) + flops_of(self.box_head, 0))

    def describe_model(self, reader):
        c = self.config
        reader.letter("C", c.d_model)
        Q, S = reader.letter("Q", c.n_queries), reader.letter("S", c.side ** 2)
        memory, objects = ("B", S, "C"), ("B", Q, "C")
        positions = reader.boxes(("S", "C"), self.positions, detail="to q and k")
        encoder = (*reader.boxes(memory, self.patches),
                   *stacked([reader.block(block, shape=memory) for block in self.encoder],
                            positions),
                   *reader.boxes(memory, self.encoder_norm))
        heads = Row((reader.boxes(("B", Q, c.n_classes + 1), self.class_head, name="Class head"),
                     reader.boxes(("B", Q, 4), self.box_head)))
        decoder = (reader.box((Q, "C"), self.queries, name="Object queries",
                              detail="trained; added to q and k"),
                   *stacked([reader.block(block, shape=objects) for block in self.decoder]),
                   *reader.boxes(objects, self.decoder_norm), heads)
        return reader.architecture(Column(images_of(c), encoder),
                                   Column("zeros (B, Q, C)", decoder))
