"""What a decoder does besides training: continue texts with a cache, and describe itself."""

from numformer.description import MASKED, TOKENS, VECTORS, Column, costs_per_token
from numformer.models.decoder.caches import DecoderCache, begun, check_step, compiled_step
from numformer.models.transformer import CrossEntropyModel


class InferenceDecoder(CrossEntropyModel):
    """The base of `Decoder`: steps with a cache, costs, and the parts of a diagram."""

    def step(self, ids, cache=None, left_padding=None, last=False):
        """Continue sequences: logits of new tokens only, from keys and values of earlier ones.

        Most models have a compiled step, `TokenStep`. With it, the logits of a sequence are the
        same, to the bit, alone or in a batch, and however its tokens are split into calls; and
        a sequence is continued with the weights with which it was begun.

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
        check_step(self, ids, cache, left_padding)
        return self.step_embedded(self.embedding(ids), cache, left_padding, last)

    def step_embedded(self, x, cache=None, left_padding=None, last=False):
        """The rest of `step`, from embedded tokens x (B, T, C)."""
        compiled = compiled_step(self, x, cache, left_padding, last)
        if compiled is not None:
            return compiled
        cache = DecoderCache.of(self, cache, left_padding)
        x, _ = self.positions.forward(x, start=cache.start)           # (B, T, C)
        x, blocks = self.blocks.step(
            self.embedding_norm(x), cache.blocks, pattern=cache.pattern(x.shape[1]))
        logits = self.head(self.norm(x[:, -1:] if last else x))
        return logits, DecoderCache(blocks, cache.left_padding)

    def new_cache(self, weights=None, compiled=True):
        """An empty cache for `step`, which keeps the weights that the model has now.

        None if the model has no compiled step, or copies of its weights would be too large; `step`
        takes None, too. `weights`, "bfloat16" or "int8", stores them in fewer bits; then a model
        without a compiled step is a ValueError, and a large one is copied. With `compiled=False`
        the layers compute each step, which is faster for more than about 128 texts at once.
        """
        return begun(self, weights) if compiled else DecoderCache.of(self, None, None)

    def costs(self):
        return costs_per_token(self)

    def describe_features(self, reader):
        """The parts below the head."""
        reader.sizes_of(self.config)
        return (*self.input.boxes(reader, VECTORS),
                *reader.stacks(self.blocks, MASKED), *reader.boxes(VECTORS, self.norm))

    def describe_model(self, reader):
        features = self.describe_features(reader)
        logits = "B", "T", reader.letter("V", self.config.vocab_size)
        return reader.architecture(Column(TOKENS, (*features, *reader.boxes(logits, self.head))))
