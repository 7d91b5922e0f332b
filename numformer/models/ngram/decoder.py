"""A decoder with n-gram embeddings: what often follows a few tokens is looked up."""

from dataclasses import dataclass

import numpy as np

from numformer.config import option
from numformer.description import Description
from numformer.layers import NGramEmbedding
from numformer.layers.token_step import TextsCache
from numformer.models.decoder.caches import DecoderCache, check_step
from numformer.models.decoder.config import DecoderConfig
from numformer.models.decoder.model import Decoder
from numformer.models.transformer import embedding_of
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class NGramDecoderConfig(DecoderConfig):
    """The config of an `NGramDecoder`: that of a `Decoder`, and these."""

    ngrams: int = option(
        "N, 2 or more: tokens of the longest n-grams that have a vector.", 4, least=2)
    ngram_rows: int = option("Most rows of a table of n-grams.", 16384)


class NGramDecoder(Decoder):
    r"""A `Decoder` with embeddings of n-grams: those that end with a token are added to its own.

    .. math:: x^0_t = W_{\mathrm{id}_t} + \sum_{n=2}^{N} W^{(n)}_{r_n(t)} + \mathrm{positions}

    Parameters
    ----------
    config : NGramDecoderConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds only the shapes, for counting.

    References
    ----------
    Huang et al. (2025), "Over-Tokenized Transformer: Vocabulary is Generally Worth Scaling",
    section 3.2.

    Examples
    --------
    >>> sizes = dict(vocab_size=5, context_length=8, n_layers=1, n_heads=2, d_model=4)
    >>> model = NGramDecoder(NGramDecoderConfig(**sizes, ngrams=3), np.random.default_rng(0))
    >>> [len(table.data) for table in model.embedding.ngrams.tables]  # pairs and triples of 5 + 1
    [36, 216]
    >>> model(np.array([[1, 2, 3]])).shape
    (1, 3, 5)
    """

    config_class = NGramDecoderConfig

    def __init__(self, config, rng):
        super().__init__(config, rng, TokenAndNGramEmbedding(config, rng))

    def step(self, ids, cache=None, left_padding=None, last=False):
        """As `Decoder.step`; the cache also holds the last tokens, which begin the next n-grams.

        With left padding, all sequences begin.
        """
        past = None if cache is None else cache.decoder
        before = None if cache is None or not len(cache) else cache.last
        if before is not None and left_padding is not None:
            raise ValueError("NGramDecoder: left_padding came with a cache; begin with cache=None.")
        check_step(self, ids, past, left_padding)
        tokens = ids
        if left_padding is not None:
            tokens = np.where(np.arange(ids.shape[1]) < left_padding[:, None], -1, ids)
        x, _ = self.embedding.forward(ids, tokens, before)
        logits, past = self.step_embedded(x, past, left_padding, last)
        seen = tokens if before is None else np.concatenate([before, tokens], axis=1)
        return logits, NGramDecoderCache(past, seen[:, -self.embedding.ngrams.reach:])

    def new_cache(self, weights=None, compiled=True):
        cache = super().new_cache(weights, compiled)
        return None if cache is None else NGramDecoderCache(cache, None)


class TokenAndNGramEmbedding(Layer):
    """The sum of an `Embedding` and an `NGramEmbedding`, ids (B, T) to (B, T, C)."""

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.tokens = embedding_of(c, rng)
        self.ngrams = NGramEmbedding(c.vocab_size, c.d_model, c.ngrams, c.ngram_rows, rng,
                                     c.init_std, dtype)

    @property
    def weight(self):
        """The table of single tokens, which the output head may share."""
        return self.tokens.weight

    def forward(self, ids, tokens=None, before=None):
        """Vectors of ids; n-grams are of `tokens`, -1 at padding, and of the tokens `before`."""
        x, saved_tokens = self.tokens.forward(ids)
        y, saved_ngrams = self.ngrams.forward(ids if tokens is None else tokens, before)

        saved = (saved_tokens, saved_ngrams)
        return x + y, saved

    def backward(self, dy, saved):
        saved_tokens, saved_ngrams = saved

        # y = tokens(ids) + ngrams(ids)
        self.ngrams.backward(dy, saved_ngrams)
        return self.tokens.backward(dy, saved_tokens)

    def describe(self):
        tokens, ngrams = self.tokens.describe(), self.ngrams.describe()
        return Description("Token and n-gram embedding", f"{tokens.sizes}, and {ngrams.sizes}",
                           (*tokens.gradient, *ngrams.gradient))


@dataclass(frozen=True)
class NGramDecoderCache:
    """The cache of the decoder, and the last tokens of each sequence, (B, up to N - 1)."""

    decoder: DecoderCache | TextsCache
    last: np.ndarray | None

    def __len__(self):
        return len(self.decoder)

    def restarted(self, which):
        """A cache in which all texts begin again: others would need their last tokens."""
        if not isinstance(self.decoder, TextsCache):
            return None
        return NGramDecoderCache(self.decoder.restarted(np.ones_like(which)), None)
