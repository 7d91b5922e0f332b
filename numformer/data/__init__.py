"""Corpora, tokenizers, batches and noise: what models learn from."""

from numformer.data.batches.answers import answer_batch
from numformer.data.batches.batch import Batch
from numformer.data.batches.blocks import BlockStream, consecutive_blocks
from numformer.data.batches.curriculum import Curriculum
from numformer.data.batches.epochs import Epochs, EpochStream, consecutive_rows
from numformer.data.batches.labelled import LabelledStream, labelled_batches
from numformer.data.batches.masked_rows import MaskedStream, consecutive_masked_rows
from numformer.data.batches.noisy_pairs import NoiseStream
from numformer.data.batches.pairs import PairBatch, PairStream, consecutive_pairs, pair_batch
from numformer.data.batches.passages import (
    LabelledRows, PassageStream, Triplets, consecutive_passages)
from numformer.data.batches.recall import RecallStream, recall_batch
from numformer.data.batches.rows import PassageRows, passage_rows
from numformer.data.corpora.captions import (
    HELD_OUT_PHRASING, PHRASINGS, all_captions, digit_caption)
from numformer.data.corpora.dates import date_pairs, written_dates
from numformer.data.corpora.digit_questions import QUESTIONS, question_answer, two_digits
from numformer.data.corpora.digits import Digits, load_digits
from numformer.data.corpora.instructions import (
    INSTRUCTIONS, held_out_instructions, instruction_mixture, instruction_pairs)
from numformer.data.corpora.library import Section, library_sections, library_text
from numformer.data.corpora.melodies import (
    Melody, melodies, melody_rules, melody_text, read_melody)
from numformer.data.corpora.numbers import (
    english, french, held_out_numbers, number_pairs, number_text, number_tokens, number_vocabulary)
from numformer.data.corpora.passages import (
    next_sentence_pairs, repeated_passages, topic_passages, topic_triplets)
from numformer.data.corpora.pronouns import Reference, reference, references
from numformer.data.corpora.recall import (
    earlier_examples, recall_examples, recall_ids, recall_text)
from numformer.data.corpora.scenes import Scenes, SceneStream, digit_scenes, scene_batch
from numformer.data.corpora.senses import Sense, senses
from numformer.data.corpora.series import random_series
from numformer.data.corpora.shapes import SHAPES, shape_points
from numformer.data.corpora.split import is_held_out
from numformer.data.corpora.texts import (
    DOCUMENTATION, TINY_SHAKESPEARE, WORLD, Corpus, DataError, NoSuchFile, load_corpus)
from numformer.data.corpora.verifiable import (
    CARRY, SUMS, VerifiableTask, sampled_prompts, split_prompts)
from numformer.data.noise.masking import mask_tokens
from numformer.data.noise.spans import corrupt_spans, hide_tokens, infill, permute_sentences
from numformer.data.tokenizers.byte_pairs import BytePairTokenizer
from numformer.data.tokenizers.characters import CharacterTokenizer
from numformer.data.tokenizers.published import (
    PublishedTokenizer, load_tokenizer, save_tokenizer)
from numformer.data.tokenizers.reading import tokenizer_from_json
from numformer.data.tokenizers.unigram import UnigramTokenizer
from numformer.data.tokenizers.wordpiece import WordPieceTokenizer
from numformer.data.tokenizers.words import WordTokenizer
from numformer.data.world import Tale, tale, tales, world_text, world_tokens

__all__ = [
    "Batch", "BlockStream", "BytePairTokenizer", "CARRY", "CharacterTokenizer", "Corpus",
    "Curriculum", "DOCUMENTATION", "DataError", "Digits", "EpochStream", "Epochs",
    "HELD_OUT_PHRASING", "INSTRUCTIONS", "LabelledRows", "LabelledStream", "MaskedStream", "Melody",
    "NoSuchFile", "NoiseStream", "PHRASINGS", "PairBatch", "PairStream", "PassageRows",
    "PassageStream", "PublishedTokenizer", "QUESTIONS", "RecallStream", "Reference", "SHAPES",
    "SUMS", "SceneStream", "Scenes", "Section", "Sense", "TINY_SHAKESPEARE", "Tale", "Triplets",
    "UnigramTokenizer", "VerifiableTask", "WORLD", "WordPieceTokenizer", "WordTokenizer",
    "all_captions", "answer_batch", "consecutive_blocks", "consecutive_masked_rows",
    "consecutive_pairs", "consecutive_passages", "consecutive_rows", "corrupt_spans", "date_pairs",
    "digit_caption", "digit_scenes", "earlier_examples", "english", "french",
    "held_out_instructions", "held_out_numbers", "hide_tokens", "infill", "instruction_mixture",
    "instruction_pairs", "is_held_out", "labelled_batches", "library_sections", "library_text",
    "load_corpus", "load_digits", "load_tokenizer", "mask_tokens", "melodies", "melody_rules",
    "melody_text", "next_sentence_pairs", "number_pairs", "number_text", "number_tokens",
    "number_vocabulary", "pair_batch", "passage_rows", "permute_sentences", "question_answer",
    "random_series", "read_melody", "recall_batch", "recall_examples", "recall_ids", "recall_text",
    "reference", "references", "repeated_passages", "sampled_prompts", "save_tokenizer",
    "scene_batch", "senses", "shape_points", "split_prompts", "tale", "tales",
    "tokenizer_from_json", "topic_passages", "topic_triplets", "two_digits", "world_text",
    "world_tokens", "written_dates",
]
