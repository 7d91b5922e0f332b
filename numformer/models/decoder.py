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
from numformer.layers.token_step import TokenStep
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

    def step(self, ids, cache=None, left_padding=None):
        """Continue sequences: logits of new tokens only, from keys and values of earlier ones.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The new tokens, any number of them.
        cache : DecoderCache, optional
            What the last call returned; None at the start.
        left_padding : ndarray of int, shape (B,), optional
            With cache=None only: number of padding tokens before each sequence; they are masked.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        cache : DecoderCache
            A new value; the old one stays valid.
        """
        self.check_step(ids, cache)
        return self.step_embedded(self.embedding(ids), cache, left_padding)

    def check_step(self, ids, cache):
        """Check that ids have shape (B, T), and that the cache fits them and this model."""
        check_rows(type(self).__name__, "ids", ids)
        if cache is not None and (len(cache.blocks) != len(self.blocks)
                                  or any(len(past.k) != len(ids) for past in cache.blocks)):
            raise ValueError(f"Decoder: the cache must hold keys and values of {len(self.blocks)} "
                             f"blocks for B={len(ids)} sequences; begin with cache=None.")

    def step_embedded(self, x, cache=None, left_padding=None):
        """The rest of `step`, from embedded tokens x (B, T, C)."""
        start, past_blocks, compiled, pattern = 0, [None] * len(self.blocks), None, CAUSAL
        if cache is not None:
            start, past_blocks, left_padding = len(cache), cache.blocks, cache.left_padding
        if left_padding is not None:                          # mask padding as another document
            is_token = np.arange(start + x.shape[1]) >= left_padding[:, None]         # (B, S)
            pattern = AttentionPattern(causal=True, documents=is_token.astype(int))
        if cache is not None and x.size == x.shape[-1] and left_padding is None:      # B = T = 1
            compiled = self._compiled(cache)
        first = start if left_padding is None else start - left_padding               # or (B,)
        x, _ = self.positions.forward(x, start=first)                 # (B, T, C)
        if compiled is not None:
            logits, new_blocks = compiled(x, past_blocks)
        else:
            new_blocks = []
            for block, past in zip(self.blocks, past_blocks, strict=True):
                x, past = block.step(x, past, pattern=pattern)
                new_blocks.append(past)
            logits = self.head(self.norm(x))
        return logits, DecoderCache(tuple(new_blocks), left_padding, compiled)

    def _compiled(self, cache):
        """The compiled step of one token, reused from the cache; None if unsupported."""
        parts, step = (self.blocks, self.norm, self.head), cache.compiled
        return step if step and step.is_of(*parts) else TokenStep.of(*parts)


@dataclass(frozen=True)
class DecoderCache:
    """Keys and values of every block, left padding of every sequence, the compiled step."""

    blocks: tuple                                                     # of KeyValueCache, L of them
    left_padding: np.ndarray | None = None                            # (B,), int
    compiled: TokenStep | None = None

    def __len__(self):
        return len(self.blocks[0]) if self.blocks else 0


def _experts_of(config, initial):
    c, gated = config, config.feedforward in GATED
    return MixtureOfExperts(
        c.d_model, c.hidden_width, c.n_experts, c.experts_per_token,
        GATED.get(c.feedforward, c.feedforward), gated=gated, gates_over=c.gates_over,
        capacity_factor=c.capacity_factor, balance_weight=c.balance_weight,
        z_weight=c.router_z_weight, **initial)


# Each paper's options; Mixtral's rotary base is that of its code.
TRANSFORMER_2017 = dict(norm_first=False, feedforward="relu", positions="sinusoidal",
                        embedding_scale=True)
GPT1 = dict(vocab_size=40478, context_length=512, norm_first=False)
GPT2 = dict(vocab_size=50257, context_length=1024)
GPT3 = dict(vocab_size=50257, context_length=2048)
LLAMA = dict(vocab_size=32000, context_length=2048, norm="rms_norm", feedforward="swiglu",
             positions="rotary", bias=False, tied=False, epsilon=1e-6)
LLAMA2 = {**LLAMA, "context_length": 4096, "epsilon": 1e-5}
LLAMA3 = {**LLAMA2, "vocab_size": 128256, "context_length": 8192, "rotary_base": 500000.0}
MIXTRAL = {**LLAMA2, "context_length": 32768, "rotary_base": 1000000.0, "n_experts": 8,
           "experts_per_token": 2}

_SIZES = (                                                    # L, H, C; F and G where they differ
    # Radford et al. (2018), section 4.1
    ("gpt1", GPT1, 12, 12, 768),
    # Radford et al. (2019), table 2, whose parameter counts of the small ones are known misprints
    ("gpt2", GPT2, 12, 12, 768), ("gpt2-medium", GPT2, 24, 16, 1024),
    ("gpt2-large", GPT2, 36, 20, 1280), ("gpt2-xl", GPT2, 48, 25, 1600),
    # Brown et al. (2020), table 2.1 (H of XL, C of 13B corrected); here no layer is sparse
    ("gpt3-small", GPT3, 12, 12, 768), ("gpt3-medium", GPT3, 24, 16, 1024),
    ("gpt3-large", GPT3, 24, 16, 1536), ("gpt3-xl", GPT3, 24, 16, 2048),
    ("gpt3-2.7b", GPT3, 32, 32, 2560), ("gpt3-6.7b", GPT3, 32, 32, 4096),
    ("gpt3-13b", GPT3, 40, 40, 5120), ("gpt3", GPT3, 96, 96, 12288),
    # Touvron et al. (2023), "LLaMA", table 2
    ("llama-7b", LLAMA, 32, 32, 4096, 11008), ("llama-13b", LLAMA, 40, 40, 5120, 13824),
    ("llama-33b", LLAMA, 60, 52, 6656, 17920), ("llama-65b", LLAMA, 80, 64, 8192, 22016),
    # Touvron et al. (2023), "Llama 2", table 1
    ("llama2-7b", LLAMA2, 32, 32, 4096, 11008), ("llama2-13b", LLAMA2, 40, 40, 5120, 13824),
    ("llama2-70b", LLAMA2, 80, 64, 8192, 28672, 8),
    # Grattafiori et al. (2024), "The Llama 3 Herd of Models", table 3
    ("llama3-8b", LLAMA3, 32, 32, 4096, 14336, 8), ("llama3-70b", LLAMA3, 80, 64, 8192, 28672, 8),
    ("llama3-405b", LLAMA3, 126, 128, 16384, 53248, 8),
    # Jiang et al. (2024), "Mixtral of Experts", table 1: 13 B of 47 B parameters are active
    ("mixtral-8x7b", MIXTRAL, 32, 32, 4096, 14336, 8))
_NAMES = "n_layers", "n_heads", "d_model", "d_hidden", "n_kv_heads"
DECODERS = {name: DecoderConfig(**choices, **dict(zip(_NAMES, sizes)))
            for name, choices, *sizes in _SIZES}
