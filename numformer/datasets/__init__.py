"""What to learn from: texts, and tasks made by rule."""

from numformer.datasets.dates import date_pairs, written_dates
from numformer.datasets.digits import Digits, load_digits
from numformer.datasets.instructions import INSTRUCTIONS, held_out_instructions, instruction_mixture, instruction_pairs
from numformer.datasets.library import Section, library_sections, library_text
from numformer.datasets.numbers import english, french, held_out_numbers, number_pairs, number_pieces, number_text, number_vocabulary
from numformer.datasets.passages import next_sentence_pairs, repeated_passages, topic_passages, topic_triplets
from numformer.datasets.split import is_held_out
from numformer.datasets.texts import DOCUMENTATION, TINY_SHAKESPEARE, Corpus, DataError, NoSuchFile, load_corpus

__all__ = [
    "Corpus", "DOCUMENTATION", "DataError", "Digits", "INSTRUCTIONS", "NoSuchFile", "Section", "TINY_SHAKESPEARE", "date_pairs", "english",
    "french", "held_out_instructions", "held_out_numbers", "instruction_mixture", "instruction_pairs", "is_held_out", "library_sections",
    "library_text", "load_corpus", "load_digits", "next_sentence_pairs", "number_pairs", "number_pieces", "number_text",
    "number_vocabulary", "repeated_passages", "topic_passages", "topic_triplets", "written_dates",
]
