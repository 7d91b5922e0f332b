"""A tokenizer for a model with more ids than tokens, or without the last special ones."""

from numformer.data.tokenizers.base import Tokenizer

MOST = 1024                                           # the largest number whose multiples are sizes


class PaddedTokenizer(Tokenizer):
    """A tokenizer whose ids go on to a round number; the additional ones stand for no text.

    Published vocabularies are padded in this way, so that matrices have convenient sizes. No text
    has these ids, and a trained model hardly generates one. A model may also be without the last
    special tokens, such as a mask after its fine-tuning: it refuses texts with them.

    Parameters
    ----------
    tokenizer : Tokenizer
    size : int
        V, as many ids as the model has.

    Examples
    --------
    >>> from numformer.data import CharacterTokenizer
    >>> tokenizer = PaddedTokenizer(CharacterTokenizer("ab"), 8)
    >>> len(tokenizer), tokenizer.decode([0, 7, 1])
    (8, 'ab')
    """

    def __init__(self, tokenizer, size):
        self.tokenizer, self.special, self._size = tokenizer, tokenizer.special, size

    def encode(self, text):
        return self.tokenizer.encode(text)

    def encode_with(self, names, text):
        return self.tokenizer.encode_with(names, text)

    def prompt_ids(self, text):
        return self.tokenizer.prompt_ids(text)

    @property
    def first_ids(self):
        return self.tokenizer.first_ids

    def decode(self, ids):
        return self.tokenizer.decode(self._of_texts(self._checked_ids(ids)))

    def n_characters(self, ids):
        return self.tokenizer.n_characters(self._of_texts(self._checked_ids(ids)))

    def decode_stream(self, ids, after=()):
        known = (token for token in ids if token < len(self.tokenizer))
        return self.tokenizer.decode_stream(known, self._of_texts(after))

    @property
    def frame(self):
        """That of the tokenizer; AttributeError if it has none."""
        return self.tokenizer.frame

    def to_json(self):
        return self.tokenizer.to_json()

    def special_id(self, name):
        return self.tokenizer.special_id(name)

    def _of_texts(self, ids):
        return [token for token in ids if token < len(self.tokenizer)]


def is_padded(tokenizer, size):
    """Whether a vocabulary of this size may be that of the tokenizer, padded to a round number, or
    without the last special tokens.

    Examples
    --------
    >>> from numformer.data import CharacterTokenizer
    >>> [is_padded(CharacterTokenizer("abcd"), size) for size in (4, 5, 8, 10**6)]
    [False, True, False, False]
    """
    if size < len(tokenizer):
        special = {tokenizer.special_id(name) for name in tokenizer.special}
        return size > 0 and special.issuperset(range(size, len(tokenizer)))
    return 0 < size - len(tokenizer) < min(MOST, len(tokenizer))
