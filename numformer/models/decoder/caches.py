"""Caches of a decoder: keys and values of earlier tokens, for the layers or the compiled step."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_choice, check_rows
from numformer.functional.attention.masks import CAUSAL, AttentionPattern
from numformer.functional.quantization import SMALLER_WEIGHTS
from numformer.layers.token_step import TextsCache, TokenStep, UnknownPart

LARGEST = 2**30                                       # bytes of weights that are copied unasked


@dataclass(frozen=True)
class DecoderCache:
    """Keys and values of every block, and left padding of every sequence."""

    blocks: tuple                                     # of KeyValueCache, L of them; None at first
    left_padding: np.ndarray | None = None                            # (B,), int

    @classmethod
    def of(cls, model, cache, left_padding):
        """A cache of `Decoder.step` in this form, for the layers; ValueError if padding came late.
        """
        if cache is None or not len(cache):
            return cls((None,) * len(model.blocks), left_padding)
        if isinstance(cache, TextsCache) and left_padding is not None:
            raise ValueError(f"{type(model).__name__}: left_padding came with a cache of other "
                             "weights; begin with cache=None.")
        return cls(cache.blocks, cache.left_padding)

    def __len__(self):
        return len(self.blocks[0]) if self.blocks and self.blocks[0] is not None else 0

    @property
    def start(self):
        """The position of the next token: a number, or with left padding one of each sequence."""
        return len(self) if self.left_padding is None else len(self) - self.left_padding

    def pattern(self, T):
        """That of T new tokens: causal, and padding is masked as another document."""
        if self.left_padding is None:
            return CAUSAL
        is_token = np.arange(len(self) + T) >= self.left_padding[:, None]             # (B, S)
        return AttentionPattern(causal=True, documents=is_token.astype(int))

    def rows(self, order):
        """The cache of the sequences with indices `order`, an int array; indices may repeat."""
        padding = self.left_padding
        return DecoderCache(tuple(past.rows(order) for past in self.blocks),
                            None if padding is None else padding[order])


def begun(model, weights=None):
    """The empty cache of a decoder for the compiled step, or None: how a generation begins.

    None if the kernel does not know a part, or the weights take more than `LARGEST` bytes. Then the
    layers compute each step; a large model has no memory for copies, and their making would take as
    long as many tokens.

    Raises
    ------
    ValueError
        If `weights` is unknown; `UnknownPart` if it is given for a decoder that the kernel does not
        know.
    """
    owner, parts = type(model).__name__, (model.blocks, model.norm, model.head)
    if weights is not None:
        check_choice(owner, "weights", weights, SMALLER_WEIGHTS)
    size = sum(parameter.data.nbytes for part in (*model.blocks, model.norm, model.head)
               for parameter in part.parameters())
    step = None if weights is None and size > LARGEST else TokenStep.of(*parts, weights)
    if step is None and weights is not None:
        raise UnknownPart(f"{owner}: weights={weights!r} needs the compiled step, which does not "
                          "know a part of this model, or is off; leave weights out.")
    return None if step is None else step.begin()


def compiled_step(model, x, cache, left_padding, last):
    """`Decoder.step_embedded` in one compiled call; None if it does not know the model or cache."""
    cache = begun(model) if cache is None else cache
    if not isinstance(cache, TextsCache) or not cache.step.is_of(
            model.blocks, model.norm, model.head):
        return None
    pages = cache.pages if cache.texts else cache.step.begin(len(x)).pages
    padding = 0 if left_padding is None else left_padding
    x, _ = model.positions.forward(x, start=pages.lengths - padding)
    logits, pages = cache.step(model.embedding_norm(x), pages, left_padding, last)
    return logits, TextsCache(cache.step, pages)


def check_step(model, ids, cache, left_padding=None):
    """Check that ids have shape (B, T), and that the cache and padding fit them."""
    owner, n_blocks = type(model).__name__, len(model.blocks)
    check_rows(owner, "ids", ids)
    if left_padding is not None:
        if isinstance(cache, DecoderCache) and len(cache):
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
        blocks, texts = len(cache.blocks), {
            len(ids) if past is None else len(past.k) for past in cache.blocks}
    if cache is not None and (blocks != n_blocks or texts != {len(ids)}):
        raise ValueError(f"{owner}: the cache must hold keys and values of {n_blocks} blocks for "
                         f"B={len(ids)} sequences; begin with cache=None.")
