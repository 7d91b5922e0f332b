"""GPT, LLaMA and Mixtral: decoder-only Transformers, which predict every next token.

Read `minimal.forward` and `minimal.backward` first: GPT without options. `inference` continues
texts with a cache, `config` has the options, and `models.transformer` makes the parts that all
Transformers have of them.
"""

import numpy as np

from numformer.checks import check_rows
from numformer.functional import IGNORE_INDEX
from numformer.functional.attention.masks import CAUSAL, AttentionPattern
from numformer.layers import Dropout, Identity, LMHead, SoftCappedLMHead
from numformer.layers.linear import head_loss, head_loss_backward
from numformer.models.decoder.config import DecoderConfig
from numformer.models.decoder.inference import InferenceDecoder
from numformer.models.transformer import (
    InputEmbedding, LossOfParts, attention_of, counts_with_experts, embedding_of, final_norm_of,
    fixed_attention_of, for_each_part, norm_of, positions_of, stack_of)
from numformer.parameter import constant, normal


class Decoder(LossOfParts, InferenceDecoder):
    r"""Predict every next token from the tokens before it.

    .. math::

        x^0_t = E[\mathrm{id}_t] + P_t, \qquad
        x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad z = \mathrm{norm}(x^L)\, W^\top

    These are the L blocks of GPT-2, in which every position sees the earlier ones. E (V, C) embeds
    tokens, P positions, and W (V, C) gives the logits z of the next token; W is E itself if `tied`.
    Rotary positions and ALiBi act inside attention, and there is no P. With post-norm blocks, as in
    Vaswani et al. (2017), there is no final norm. The loss is the mean over all targets of

    .. math:: -\log \mathrm{softmax}(z_t)[\mathrm{id}_{t+1}]

    If the feed-forwards are mixtures of experts, their `auxiliary_loss` is added: without it, few
    experts would get most tokens. `LossOfParts` adds the two up, and `InferenceDecoder`
    continues texts. Where W is E, both the head and the input add to its gradient.

    Parameters
    ----------
    config : DecoderConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.
    embedding : Layer, optional
        Replaces the token embedding; must have a `weight` (V, C) if `tied`.

    References
    ----------
    Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.3;
    Vaswani et al. (2017), section 3; Touvron et al. (2023), "LLaMA", section 2.2.

    Examples
    --------
    >>> from numformer.functional import softmax
    >>> from numformer.models import DecoderConfig
    >>> sizes = dict(vocab_size=65, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = Decoder(DecoderConfig(**sizes), np.random.default_rng(0))
    >>> ids = np.array([[1, 2, 3, 4]])
    >>> logits = model(ids)
    >>> logits.shape                                                  # (B, T, V)
    (1, 4, 65)

    With tied E and learned P these are, line by line:

    >>> E, P = model.embedding.weight.data, model.positions.weight.data
    >>> x = E[ids] + P[:4]                                            # (B, T, C)
    >>> for block in model.blocks:
    ...     x = block(x, pattern=CAUSAL)
    >>> np.allclose(logits, model.norm(x) @ E.T, atol=1e-6)
    True

    The target of a token is the next one:

    >>> loss, saved = model.loss((ids[:, :-1], ids[:, 1:]))           # inputs, targets
    >>> log_p = np.log(softmax(logits)[0])                            # no later token matters
    >>> np.allclose(loss, -log_p[0, [0, 1, 2], ids[0, 1:]].mean())
    True
    >>> model.loss_backward(saved)                                    # adds to every parameter.grad

    Writing: the most likely next token, again and again.

    >>> for _ in range(3):
    ...     ids = np.append(ids, model(ids)[:, -1:].argmax(axis=-1), axis=1)
    >>> ids.shape
    (1, 7)
    """

    config_class = DecoderConfig

    def __init__(self, config, rng, embedding=None):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = embedding_of(c, rng) if embedding is None else embedding    # E, (V, C)
        self.positions = positions_of(c, rng)                         # P, (context_length, C)
        self.embedding_norm = norm_of(c) if c.embedding_norm else Identity()
        self.dropout = Dropout(c.dropout)
        self.blocks = stack_of(c, rng, bidirectional=False, attention=(           # L blocks
            attention_of if c.attention_weights == "learned" else fixed_attention_of))
        self.norm = final_norm_of(c)
        W = self.embedding.weight if c.tied else normal(
            rng, (c.vocab_size, c.d_model), c.init_std, dtype)        # (V, C)
        bias = constant(0, (c.vocab_size,), dtype) if c.lm_head_bias else None
        self.head = (LMHead(W, bias) if c.logit_softcap is None
                     else SoftCappedLMHead(W, bias, cap=c.logit_softcap))

    @property
    def input(self):
        """The layers below the first block, as one: E[id] + P, a norm, dropout."""
        return InputEmbedding(self.embedding, self.positions, self.embedding_norm, self.dropout)

    def forward(self, ids, rng=None, mask=None, causal=True):
        """Logits (B, T, V) for the token after each of ids (B, T).

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (B, 1, T, T) or (B, H, T, T), optional
            True: this query may attend to this key.
        causal : bool
            True: no query attends to a later key, whatever the mask says. With False and a mask,
            the first tokens may be read in both directions, as in a prefix language model.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple
        """
        x, saved_features = self.features(ids, rng, AttentionPattern(causal=causal, mask=mask))
        logits, saved_head = self.head.forward(x)                     # (B, T, V)

        saved = (saved_features, saved_head)
        return logits, saved

    def features(self, ids, rng=None, pattern=CAUSAL):
        """What the head reads: the residual stream after the last block and norm, (B, T, C)."""
        check_rows("Decoder", "ids", ids)
        x, saved_input = self.input.forward(ids, rng=rng)             # (B, T, C)
        x, saved_blocks = self.blocks.forward(x, pattern=pattern, rng=rng)
        x, saved_norm = self.norm.forward(x)

        saved = (saved_input, saved_blocks, saved_norm)
        return x, saved

    def backward(self, dlogits, saved, dauxiliary=0.0):
        """Add to every parameter's gradient; `dauxiliary` is the gradient of `auxiliary_loss`."""
        saved_features, saved_head = saved

        # logits = head(features(ids))
        dx = self.head.backward(dlogits, saved_head)
        return self.features_backward(dx, saved_features, dauxiliary)

    def features_backward(self, dx, saved, dauxiliary):
        """Add to the gradients of all parameters below the head; `dauxiliary` as in `backward`."""
        saved_input, saved_blocks, saved_norm = saved

        # x = norm(blocks(input(ids)))
        dx = self.norm.backward(dx, saved_norm)
        dx = self.blocks.backward(dx, saved_blocks, dauxiliary)
        return self.input.backward(dx, saved_input)

    auxiliary_parts = 1                                               # as of `LossOfParts`

    def loss_counts(self, batch):
        _, targets = batch
        return counts_with_experts(self.config, targets)

    def loss_parts(self, batch, rng=None):
        """The cross-entropy of a batch (inputs, targets) and the `auxiliary_loss`; and saved.

        `head_loss` is the head and the cross-entropy in one.
        """
        ids, targets = batch
        x, saved_features = self.features(ids, rng)
        loss, saved_loss = 0.0, None
        if (np.asarray(targets) != IGNORE_INDEX).any():               # not where all is padding
            loss, saved_loss = head_loss(self.head, x, targets, z_loss=self.z_loss,
                                         label_smoothing=self.label_smoothing)     # 0 as a rule

        saved = (saved_features, saved_loss, x.shape)
        return (loss, self.auxiliary_loss(saved_features)), saved

    def loss_backward(self, saved, dloss=1.0):
        saved_features, saved_loss, shape = saved
        dtargets, dauxiliary = for_each_part(dloss, 2)                # of one loss or of both

        # losses = head_loss(features(ids), targets), auxiliary_loss
        dx = np.zeros(shape, self.config.dtype)
        if saved_loss is not None:
            dx = head_loss_backward(self.head, dtargets, saved_loss)
        self.features_backward(dx, saved_features, dauxiliary)

    def evaluation_loss(self, batch):
        ids, targets = batch
        return head_loss(self.head, self.features(ids)[0], targets)[0]

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of the blocks; `saved` is that of `features`."""
        _, saved_blocks, _ = saved
        return self.blocks.auxiliary_loss(saved_blocks)
