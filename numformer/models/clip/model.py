"""CLIP: texts and images as vectors of one space, in which those that belong together are close."""

import math

import numpy as np

from numformer.checks import check_number
from numformer.description import OF_COSINE, n_parameters
from numformer.functional import (
    contrastive_loss, contrastive_loss_backward, cosine_similarity, cosine_similarity_backward,
    softmax)
from numformer.models.clip.config import CLIPConfig
from numformer.models.clip.text_encoder import CLIPTextEncoder
from numformer.models.vision_transformer.model import VisionTransformer
from numformer.parameter import Layer, constant


class CLIP(Layer):
    r"""The similarity of every image and every text: their cosine, over a trained temperature.

    .. math::

        z_{ij} = e^s \cos(u_i, v_j), \qquad u = \mathrm{image}(\mathrm{images}), \quad
        v = \mathrm{text}(\mathrm{ids}), \quad e^s = 1 / \tau

    .. math::

        \bar{s} = \sum_{ij} \bar{z}_{ij}\, z_{ij}, \qquad
        \overline{\cos}_{ij} = e^s\, \bar{z}_{ij}

    The image encoder is a `VisionTransformer` whose logits are the coordinates of u. Training makes
    the similarity of pairs large among all N x N of a batch: see `contrastive_loss`. So the loss
    depends on which pairs are in a batch together; where a trainer cuts a batch into shards, each
    pair is compared with those of its shard.

    Nothing in the loss bounds e^s. The paper does so after every step, and so does a `Trainer`, by
    `after_step`; a training loop of your own calls `clip_logit_scale`.

    Parameters
    ----------
    config : CLIPConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Radford et al. (2021), "Learning Transferable Visual Models From Natural Language Supervision",
    figure 3 and sections 2.3 to 2.5.

    Examples
    --------
    >>> from numformer.models import CLIPConfig
    >>> config = CLIPConfig(image_size=8, patch_size=2, channels=1, vocab_size=9, context_length=6,
    ...                     n_layers=2, n_heads=2, d_model=16, d_embedding=8)
    >>> model = CLIP(config, np.random.default_rng(0))
    >>> ids, images = np.array([[1, 2, 8], [1, 3, 8]]), np.zeros((2, 8, 8, 1), np.float32)
    >>> model(ids, images).shape                                      # (images, texts)
    (2, 2)
    >>> loss, saved = model.loss((ids, images))
    >>> model.loss_backward(saved)
    >>> model.classify(ids, images[:1]).sum(axis=1)                   # probabilities of two classes
    array([1.], dtype=float32)
    """

    config_class = CLIPConfig

    def __init__(self, config, rng):
        self.config = config
        self.text = CLIPTextEncoder(config.text, rng)
        self.image = VisionTransformer(config.image, rng)
        self.logit_scale = constant(-math.log(config.temperature), (), np.dtype(config.dtype))

    def forward(self, ids, images, lengths=None, rng=None, mask=None):
        """The logits of all images and texts.

        Parameters
        ----------
        ids : ndarray of int, shape (M, T)
            Texts, each with its end token.
        images : ndarray, shape (N, height, width, channels)
        lengths : ndarray of int, shape (M,), optional
            Tokens of each text without padding on the right; T unless given.
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (M, 1, T, T) or (M, H, T, T), optional
            True: this query of a text may attend to this key, if it is not later.

        Returns
        -------
        logits : ndarray, shape (N, M)
        saved : tuple
        """
        v, saved_text = self.text.forward(ids, lengths, rng, mask)    # (M, E)
        u, saved_image = self.image.forward(images, rng)              # (N, E)
        cosines, saved_cosines = cosine_similarity(u, v)              # (N, M)
        scale = np.exp(self.logit_scale.data)
        logits = scale * cosines

        saved = (saved_text, saved_image, saved_cosines, scale, cosines)
        return logits, saved

    def backward(self, dlogits, saved):
        """The gradient of the images, (N, height, width, channels)."""
        saved_text, saved_image, saved_cosines, scale, cosines = saved

        # logits = scale * cosines, scale = exp(logit_scale)
        dcosines = scale * dlogits
        self.logit_scale.grad += (dcosines * cosines).sum()

        # cosines = cosine_similarity(u, v)
        du, dv = cosine_similarity_backward(dcosines, saved_cosines)

        # u = image(images), v = text(ids)
        self.text.backward(dv, saved_text)
        return self.image.backward(du, saved_image)

    def loss(self, batch, rng=None):
        """The contrastive loss of a batch of pairs.

        Parameters
        ----------
        batch : (ids, images) or (ids, images, lengths)
            Text n belongs to image n; shapes as in `forward`, with N = M.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        loss : scalar, nats a pair
        saved : tuple
        """
        logits, saved_forward = self.forward(*batch, rng=rng)
        loss, saved_loss = contrastive_loss(logits)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = contrastive_loss(forward(ids, images))
        self.backward(contrastive_loss_backward(dloss, saved_loss), saved_forward)

    def classify(self, ids, images, lengths=None):
        """Zero-shot classification: the probability of every class for every image.

        No class needs an example in training, only a name or a sentence, such as "a photo of a
        dog": section 3.1 of the paper.

        Parameters
        ----------
        ids : ndarray of int, shape (M, T)
            A text for each class.
        images : ndarray, shape (N, height, width, channels)
        lengths : ndarray of int, shape (M,), optional
            As in `forward`.

        Returns
        -------
        p : ndarray, shape (N, M)
        """
        return softmax(self(ids, images, lengths))[0]

    def cosines(self, ids, images, lengths=None):
        """The cosine similarities (N, M) of images (N, ...) and texts (M, T), in -1 to 1."""
        return cosine_similarity(self.image(images), self.text(ids, lengths))[0]

    def clip_logit_scale(self, largest=100.0):
        """Bound exp(logit_scale), which keeps training stable: section 2.5 of the paper.

        To be called after a step. The weight itself is changed, not the forward: so it still has a
        gradient, and can become smaller again.

        Parameters
        ----------
        largest : float above 0
        """
        check_number("CLIP", "largest", largest, above=0)
        np.minimum(self.logit_scale.data, math.log(largest), out=self.logit_scale.data)

    def costs(self):
        """The costs of an image and of a text; a pair is one of each."""
        image, text = self.image.costs()["flops_per_image"], self.text.costs()["flops_per_text"]
        return {"parameters": n_parameters(self), "flops_per_image": image, "flops_per_text": text,
                "training_flops_per_pair": 3 * (image + text)}

    def describe_model(self, reader):
        text, image = (part.describe_model(reader).columns[0] for part in (self.text, self.image))
        similarity = reader.function(("B", "B"), "Cosine similarity", cosine_similarity,
                                     "of every image with every text", OF_COSINE)
        scale = reader.box(("B", "B"), self.logit_scale, name="Temperature",
                           detail="times exp(logit scale)")
        return reader.architecture(image, text, joint=(similarity, scale))

    def after_step(self):
        self.clip_logit_scale()
