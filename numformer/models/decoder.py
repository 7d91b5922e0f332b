"""GPT, LLaMA and Mixtral: decoder-only Transformers, which predict every next token."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from numformer.backend import cross_entropy_backward
from numformer.checks import check_choice, check_number, check_rows
from numformer.functional.activations.table import GATED
from numformer.functional.attention.masks import CAUSAL, AttentionPattern
from numformer.functional.experts.router import check_k
from numformer.layers import Dropout, LMHead, MixtureOfExperts
from numformer.layers.token_step import TextsCache, begun
from numformer.models.transformer import (
    CrossEntropyModel, TransformerConfig, block_of, embedding_of, feedforward_of, final_norm_of,
    positions_of)
from numformer.parameter import normal


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(TransformerConfig):
    """The config of a `Decoder`; the defaults are GPT-2's.

    Parameters
    ----------
    vocab_size : int
        V.
    context_length : int
        Longest sequence in training.
    positions : "learned", "sinusoidal", "rotary", "alibi" or "none"
        How the model depends on the order of its tokens.
    tied : bool
        Use the token embedding as the output head, too.
    embedding_scale : bool
        Multiply embeddings by sqrt(C).
    n_experts : int
        E, feed-forwards of a block, of which a router chooses k for every token: see
        `MixtureOfExperts`. With 1, a plain feed-forward, the next five options have no effect.
    experts_per_token : int
        k.
    gates_over : "chosen" or "all"
        Whether gates are a softmax over the k chosen experts or over all E; "all" if k = 1.
    capacity_factor : float
        Most tokens per expert, as a multiple of an even share; 0 for no limit.
    balance_weight, router_z_weight : float
        Factors of the auxiliary losses of every block, which are added to the loss.

    Examples
    --------
    >>> DecoderConfig(vocab_size=65, context_length=64, n_layers=4, n_heads=3, d_model=8)
    Traceback (most recent call last):
    ValueError: DecoderConfig: d_model=8 is not divisible by n_heads=3; use n_heads=2 or d_model=9.
    """

    POSITIONS: ClassVar = ("learned", "sinusoidal", *TransformerConfig.POSITIONS)
    WHOLE: ClassVar = ("vocab_size", "context_length", *TransformerConfig.WHOLE, "n_experts",
                       "experts_per_token")

    vocab_size: int
    context_length: int
    positions: str = "learned"
    tied: bool = True
    embedding_scale: bool = False
    n_experts: int = 1
    experts_per_token: int = 2
    gates_over: str = "chosen"
    capacity_factor: float = 0.0
    balance_weight: float = 0.01
    router_z_weight: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        owner = type(self).__name__
        for name in ("capacity_factor", "balance_weight", "router_z_weight"):
            check_number(owner, name, getattr(self, name), least=0)
        check_choice(owner, "gates_over", self.gates_over, ["chosen", "all"])
        if self.n_experts > 1:
            check_k(owner, "experts_per_token", self.experts_per_token, self.n_experts)
            if self.experts_per_token == 1 and self.gates_over == "chosen":
                raise ValueError(
                    f"{owner}: with experts_per_token=1 and gates_over='chosen' every weight is 1, "
                    "without gradient for the router; use gates_over='all' or experts_per_token=2.")


class Decoder(CrossEntropyModel):
    r"""Predict every next token from the tokens before it.

    .. math::

        x^0 = \mathrm{embedding}(\mathrm{ids}) + \mathrm{positions}, \qquad
        x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad z = \mathrm{norm}(x^L)\, W^\top

    as in GPT-2. Rotary positions and ALiBi act inside attention instead. With post-norm blocks, as
    in Vaswani et al. (2017), there is no final norm.

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
    >>> sizes = dict(vocab_size=65, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = Decoder(DecoderConfig(**sizes), np.random.default_rng(0))
    >>> ids = np.array([[1, 2, 3, 4]])
    >>> model(ids).shape                                              # logits, (B, T, V)
    (1, 4, 65)
    >>> loss, saved = model.loss((ids[:, :-1], ids[:, 1:]))           # inputs, targets
    >>> model.loss_backward(saved)
    """

    def __init__(self, config, rng, embedding=None):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = embedding_of(c, rng) if embedding is None else embedding
        self.positions = positions_of(c, rng)
        self.dropout = Dropout(c.dropout)
        feedforward = feedforward_of if c.n_experts == 1 else _experts_of
        self.blocks = [block_of(c, rng, feedforward=feedforward) for _ in range(c.n_layers)]
        self.norm = final_norm_of(c)
        self.head = LMHead(self.embedding.weight if c.tied
                           else normal(rng, (c.vocab_size, c.d_model), c.init_std, dtype))

    def forward(self, ids, rng=None):
        """Logits (B, T, V) for the token after each of ids (B, T); rng is for dropout."""
        check_rows("Decoder", "ids", ids)
        x, saved_embedding = self.embedding.forward(ids)              # (B, T, C)
        x, saved_positions = self.positions.forward(x, start=0)
        x, saved_dropout = self.dropout.forward(x, rng)
        saved_blocks = []
        for block in self.blocks:
            x, saved_block = block.forward(x, pattern=CAUSAL, rng=rng)                # (B, T, C)
            saved_blocks.append(saved_block)
        x, saved_norm = self.norm.forward(x)
        logits, saved_head = self.head.forward(x)                     # (B, T, V)

        saved_input = (saved_embedding, saved_positions, saved_dropout)
        saved = (saved_input, saved_blocks, saved_norm, saved_head)
        return logits, saved

    def backward(self, dlogits, saved, dauxiliary=0.0):
        """Add to every parameter's gradient; `dauxiliary` is the gradient of `auxiliary_loss`."""
        saved_input, saved_blocks, saved_norm, saved_head = saved
        saved_embedding, saved_positions, saved_dropout = saved_input

        # logits = head(norm(x))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.norm.backward(dx, saved_norm)

        # x = block(x), L times
        for block, saved_block in zip(reversed(self.blocks), reversed(saved_blocks)):
            dx = block.backward(dx, saved_block, dauxiliary)

        # x = dropout(positions(embedding(ids)))
        dx = self.dropout.backward(dx, saved_dropout)
        dx = self.positions.backward(dx, saved_positions)
        return self.embedding.backward(dx, saved_embedding)

    def loss(self, batch, rng=None):
        """(loss, saved) of a batch (inputs, targets): cross-entropy plus `auxiliary_loss`."""
        loss, saved = super().loss(batch, rng)
        return loss + self.auxiliary_loss(saved[0]), saved

    def loss_backward(self, saved, dloss=1.0):
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(inputs), targets) + auxiliary_loss
        dlogits = cross_entropy_backward(dloss, saved_loss)
        self.backward(dlogits, saved_forward, dauxiliary=dloss)

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of the blocks; `saved` is that of `forward`."""
        _, saved_blocks, _, _ = saved
        return sum(block.auxiliary_loss(each) for block, each in zip(self.blocks, saved_blocks))

    def step(self, ids, cache=None, left_padding=None, last=False):
        """Continue sequences: logits of new tokens only, from keys and values of earlier ones.

        Where the compiled step knows all parts of the model, the logits of a sequence do not
        depend, to the bit, on how many others are next to it or how its tokens were split into
        calls. A generation then goes on with the weights with which it began: see `TokenStep`.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The new tokens, any number of them.
        cache : cache, optional
            What the last call, or `new_cache`, returned; None at the start.
        left_padding : ndarray of int, shape (B,), optional
            Number of padding tokens before the new tokens of each sequence; they are masked. Not
            with a `DecoderCache`, the cache of models that the compiled step does not know.
        last : bool
            Whether only the logits of the last token are wanted.

        Returns
        -------
        logits : ndarray, shape (B, T, V), or (B, 1, V) with `last`
        cache : TextsCache or DecoderCache
            A new value; the old one stays valid.
        """
        self.check_step(ids, cache, left_padding)
        return self.step_embedded(self.embedding(ids), cache, left_padding, last)

    def new_cache(self, weights=None):
        """A cache for `step` with the weights of now, without positions, of any number of texts.

        None if the compiled step does not know the model; `step` takes that, too. `weights`,
        "bfloat16" or "int8", stores them in fewer bits; then such a model is a ValueError.
        """
        return begun(type(self).__name__, self._parts, weights)

    def check_step(self, ids, cache, left_padding=None):
        """Check that ids have shape (B, T), and that the cache and padding fit them."""
        owner = type(self).__name__
        check_rows(owner, "ids", ids)
        if left_padding is not None:
            if isinstance(cache, DecoderCache):
                raise ValueError(f"{owner}: left_padding came with a cache that has one already; "
                                 "begin with cache=None.")
            if np.shape(left_padding) != ids.shape[:1] or not all(
                    0 <= n < ids.shape[1] for n in left_padding):
                raise ValueError(f"{owner}: left_padding must have shape (B,) = {ids.shape[:1]}, "
                                 f"with numbers from 0 to T - 1 = {ids.shape[1] - 1}, but is "
                                 f"{left_padding!r}.")
        if isinstance(cache, TextsCache):
            blocks, texts = cache.n_blocks, {cache.texts or len(ids)}
        elif cache is not None:
            blocks, texts = len(cache.blocks), {len(past.k) for past in cache.blocks}
        if cache is not None and (blocks != len(self.blocks) or texts != {len(ids)}):
            raise ValueError(f"{owner}: the cache must hold keys and values of {len(self.blocks)} "
                             f"blocks for B={len(ids)} sequences; begin with cache=None.")

    def step_embedded(self, x, cache=None, left_padding=None, last=False):
        """The rest of `step`, from embedded tokens x (B, T, C)."""
        B, T, _ = x.shape
        if cache is None:
            cache = begun(type(self).__name__, self._parts)
        if isinstance(cache, TextsCache):
            if cache.step.is_of(*self._parts):
                pages = cache.pages if cache.texts else cache.step.begin(B).pages
                padding = 0 if left_padding is None else left_padding
                x, _ = self.positions.forward(x, start=pages.lengths - padding)
                logits, pages = cache.step(x, pages, left_padding, last)
                return logits, TextsCache(cache.step, pages)
            if len(cache) and left_padding is not None:
                raise ValueError(f"{type(self).__name__}: left_padding came with a cache of other "
                                 "weights; begin with cache=None.")
            cache = DecoderCache(cache.blocks, cache.left_padding) if len(cache) else None
        start, past_blocks, pattern = 0, [None] * len(self.blocks), CAUSAL
        if cache is not None:
            start, past_blocks, left_padding = len(cache), cache.blocks, cache.left_padding
        if left_padding is not None:                          # mask padding as another document
            is_token = np.arange(start + T) >= left_padding[:, None]                  # (B, S)
            pattern = AttentionPattern(causal=True, documents=is_token.astype(int))
        first = start if left_padding is None else start - left_padding               # or (B,)
        x, _ = self.positions.forward(x, start=first)                 # (B, T, C)
        new_blocks = []
        for block, past in zip(self.blocks, past_blocks, strict=True):
            x, past = block.step(x, past, pattern=pattern)
            new_blocks.append(past)
        logits = self.head(self.norm(x[:, -1:] if last else x))
        return logits, DecoderCache(tuple(new_blocks), left_padding)

    @property
    def _parts(self):
        return self.blocks, self.norm, self.head


@dataclass(frozen=True)
class DecoderCache:
    """Keys and values of every block, and left padding of every sequence."""

    blocks: tuple                                                     # of KeyValueCache, L of them
    left_padding: np.ndarray | None = None                            # (B,), int

    def __len__(self):
        return len(self.blocks[0]) if self.blocks else 0


def _experts_of(config, initial):
    c, gated = config, config.feedforward in GATED
    return MixtureOfExperts(
        c.d_model, c.hidden_width, c.n_experts, c.experts_per_token,
        GATED.get(c.feedforward, c.feedforward), gated=gated, gates_over=c.gates_over,
        capacity_factor=c.capacity_factor, balance_weight=c.balance_weight,
        z_weight=c.router_z_weight, **initial)
