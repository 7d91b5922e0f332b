"""From text to ids and back: by characters, by words, by byte pairs."""

from numformer.tokenizers.byte_pairs import BytePairTokenizer
from numformer.tokenizers.characters import CharacterTokenizer
from numformer.tokenizers.reading import tokenizer_from_json
from numformer.tokenizers.words import WordTokenizer

__all__ = ["BytePairTokenizer", "CharacterTokenizer", "WordTokenizer", "tokenizer_from_json"]
