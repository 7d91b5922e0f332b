"""A vocabulary of named tokens: what WordPiece and unigram tokenizers share."""

from itertools import chain

import numpy as np

from numformer.data.tokenizers.base import Tokenizer, check_text


class VocabularyTokenizer(Tokenizer):
    """Special tokens have the first ids, one for what is unknown among them; the tokens follow.

    A subclass has ``_words(text)``, the words into which a text is split, and
    ``_encode_word(word)``, the ids of one.

    Parameters
    ----------
    tokens : sequence of str
        The tokens in the order of ids.
    special : tuple of str
        Names of special tokens.
    unknown : str
        The special token of what is unknown.
    no_token : sequence of str
        What must not be a token.

    Raises
    ------
    ValueError
        If there are no tokens, one is empty, excluded or given twice, the token of what is unknown
        is missing, or a special token is among the tokens.
    """

    def __init__(self, tokens, special, unknown, no_token=()):
        owner, is_list = type(self).__name__, isinstance(tokens, (tuple, list)) and tokens
        if (not is_list or any(not isinstance(token, str) or token in ("", *no_token)
                               for token in tokens) or len(set(tokens)) < len(tokens)):
            raise ValueError(f"{owner}: tokens must be a list of str, each once, at least one.")
        super().__init__(special, len(tokens))
        if unknown not in special:
            raise ValueError(f"{owner}: special={self.special} must hold {unknown!r}, the token of "
                             "what is unknown.")
        if set(special) & set(tokens):
            raise ValueError(f"{owner}: special={self.special} must hold none of the tokens; a "
                             "special token is among the tokens, too.")
        self.tokens = tuple(tokens)
        self.vocabulary = (*self.special, *self.tokens)               # in the order of ids
        self._ids = {token: i for i, token in enumerate(tokens, len(special))}

    def encode(self, text):
        """The ids of a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        ndarray of int64, shape (number of tokens,)

        Raises
        ------
        TypeError
            If the text is no str.
        """
        check_text(type(self).__name__, text)
        ids = map(self._encode_word, self._words(text))
        return np.fromiter(chain.from_iterable(ids), dtype=np.int64)

    def _tokens_of(self, ids):
        return [self.vocabulary[i] for i in self._checked_ids(ids)]
