"""A published tokenizer: the steps that its tokenizer.json describes, one after another."""

import json
from codecs import getincrementaldecoder
from functools import reduce
from itertools import chain

import numpy as np

from numformer.data.tokenizers.base import Tokenizer, check_text
from numformer.data.tokenizers.byte_merges import BYTE_OF
from numformer.data.tokenizers.published.added import AddedTokens
from numformer.data.tokenizers.published.decoders import (
    is_byte, join_bytes, read_decoder, token_bytes)
from numformer.data.tokenizers.published.fields import read_fields
from numformer.data.tokenizers.published.growth import most_characters
from numformer.data.tokenizers.published.models import read_model, type_of_model
from numformer.data.tokenizers.published.normalizers import read_normalizer
from numformer.data.tokenizers.published.pre_tokenizers import read_pre_tokenizer
from numformer.data.tokenizers.published.templates import read_templates


class PublishedTokenizer(Tokenizer):
    """The tokenizer of a published model, with the ids of its tokenizer.json.

    A text becomes ids in these steps: added tokens are found in it; what is between them is
    normalized, and split into words by the pre-tokenizers; the model (byte pairs, WordPiece or
    unigram) cuts each word into tokens. `frame` puts the special tokens of a template around ids,
    and `decode` turns ids into a text. Truncation and padding, which the file may ask for, are the
    caller's.

    Unlike in other tokenizers the name of a special token in a text means the token, as in the
    published ones.

    Parameters
    ----------
    description : dict
        What the file holds. `published.load_tokenizer` reads it.

    Raises
    ------
    ValueError
        If a field of it is unknown or not supported: it could change ids.

    Examples
    --------
    >>> from numformer.data import BytePairTokenizer
    >>> from numformer.data.tokenizers.published import published
    >>> own = BytePairTokenizer.of("low lower", 3, ("<end>",), split="gpt2", order="gpt2")
    >>> tokenizer = published(own)
    >>> tokenizer.encode("low<end>"), tokenizer.special_id("<end>"), len(tokenizer)
    (array([257, 258]), 258, 259)
    """

    def __init__(self, description):
        _, _, _, added, normalizer, pre_tokenizer, processor, decoder, model = read_fields(
            "it", description, version=["1.0"], truncation=[None, dict], padding=[None, dict],
            added_tokens=[list], normalizer=[None, dict], pre_tokenizer=[None, dict],
            post_processor=[None, dict], decoder=[None, dict], model=[dict])
        try:
            json.dumps(description, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("tokenizer.json: it holds half of a surrogate pair, which is no "
                             "character.") from None
        self.description = description
        steps = read_normalizer(normalizer)
        self._at_start, self._inside, byte_level, keeps_text = read_pre_tokenizer(
            pre_tokenizer, type_of_model(model), bool(steps))
        ids, self._encode_word = read_model(model, byte_level)
        self._decode = read_decoder(decoder)
        self._is_exact = (
            self._decode is join_bytes and byte_level and keeps_text and not steps
            and not model.get("continuing_subword_prefix") and not model.get("end_of_word_suffix")
            and BYTE_OF.keys() <= ids.keys())

        def normalize(text):
            most = most_characters(len(text))
            return reduce(lambda text, step: step(text, most), steps, text)

        self._added = AddedTokens(added, ids, normalize)
        self.ids = {**ids, **self._added.ids}
        self._single, self._pair = read_templates(processor, self.ids)
        self.tokens = tuple(sorted(self.ids, key=self.ids.get))
        self._decoded = [self._added.decoded.get(i, name) for i, name in enumerate(self.tokens)]
        super().__init__(tuple(self._added.special), len(self.ids) - len(self._added.special))
        self._special_ids = [self.ids[name] for name in self.special]

    def encode(self, text):
        """The ids of a text, without the special tokens of a template.

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
        check_text("PublishedTokenizer", text)
        found, splits = [], self._at_start
        for token, section in self._added.sections(text):
            if section is None:
                found.append([token])
                splits = self._inside
                continue
            words = [section] if section else []
            for split in splits:
                words = chain.from_iterable(map(split, words))
            found += map(self._encode_word, words)
        return np.fromiter(chain.from_iterable(found), dtype=np.int64)

    def encode_with(self, names, text):
        """As `encode`, which finds the names of special tokens in any case."""
        return self.encode(text)

    def frame(self, ids, second=None):
        """Put the special tokens of the template around the ids of a text, or of two.

        Parameters
        ----------
        ids : ndarray of int, shape (T,)
        second : ndarray of int, optional
            The ids of a second text.

        Returns
        -------
        ids, segments : ndarray of int64, shape (number of tokens,)
            segments: which text a token belongs to, as BERT's embedding of segments counts them.

        Examples
        --------
        >>> from numformer.data import WordPieceTokenizer
        >>> from numformer.data.tokenizers.published import published
        >>> tokenizer = published(WordPieceTokenizer(["a", "b"]))     # [CLS] is 2, [SEP] is 3
        >>> tokenizer.frame(tokenizer.encode("a b"), tokenizer.encode("a"))
        (array([2, 5, 6, 3, 5, 3]), array([0, 0, 0, 0, 1, 1]))
        """
        texts = {"A": self._checked_ids(ids)}
        if second is not None:
            texts["B"] = self._checked_ids(second)
        framed = [(token, segment) for part, segment in (
                      self._single if second is None else self._pair)
                  for token in texts.get(part, [part])]
        return tuple(np.array(framed, dtype=np.int64).reshape(-1, 2).T)

    def prompt_ids(self, text):
        """The ids that the published model is given for a text: those of `frame`.

        Examples
        --------
        >>> from numformer.data import WordPieceTokenizer
        >>> from numformer.data.tokenizers.published import published
        >>> published(WordPieceTokenizer(["a", "b"])).prompt_ids("a b")
        array([2, 5, 6, 3])
        """
        return self.frame(self.encode(text))[0]

    @property
    def first_ids(self):
        """The ids of its template before a text, such as BOS."""
        parts = [part for part, _ in self._single]
        return tuple(parts[:parts.index("A")])

    def decode(self, ids):
        """The text of an array of ids, with the names of added tokens, normalized where the file
        says so, as Tokenizers 0.23 has them.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        return self._decode([self._decoded[i] for i in self._checked_ids(ids)])

    def n_characters(self, ids):
        """As `BytePairTokenizer.n_characters` for byte-level BPE that restores texts, else None."""
        if not self._is_exact:
            return None
        special = set(self._special_ids)
        data = b"".join([token_bytes(self.tokens[i]) for i in self._checked_ids(ids)
                         if i not in special])
        return int(((np.frombuffer(data, np.uint8) & 0xc0) != 0x80).sum())

    def decode_stream(self, ids, after=()):
        """As `Tokenizer.decode_stream`; in byte-level BPE a character that is cut in two waits for
        its last byte, and tokens of bytes such as <0xE6> wait for another token."""
        if self._decode is not join_bytes:
            yield from self._stream(ids, list(after))
            return
        decoder = getincrementaldecoder("utf-8")("replace")
        for token in ids:
            token, = self._checked_ids([token])
            yield decoder.decode(token_bytes(self._decoded[token]))
        yield decoder.decode(b"", final=True)

    def _stream(self, ids, after):
        def begin(known):
            """Where the last token begins that is no byte."""
            return next((i for i in range(len(known) - 1, 0, -1)
                         if not is_byte(self._decoded[known[i]])), 0)

        known = self._checked_ids(after)
        known = known[begin(known):]
        shown = self.decode(known)
        for token in chain(ids, [None]):
            if token is not None:
                known += self._checked_ids([token])
            if token is None or not is_byte(self._decoded[known[-1]]):
                yield self.decode(known)[len(shown):]
                known = known[begin(known):]
                shown = self.decode(known)
            else:
                yield ""

    def __repr__(self):
        return f"PublishedTokenizer({type_of_model(self.description['model'])}, {len(self)} ids)"

    def __reduce__(self):
        return type(self), (self.description,)

    def to_json(self):
        """A dict for `tokenizer_from_json`."""
        return {"kind": "published", "description": self.description}
