"""A small world: tales made by rule, with a label for every token and an answer to every question.

    words         start here: parts of speech, entity labels, ambiguous words
    cast          people, things, places, and which pairs are held out
    telling       templates to labelled tokens: pronouns, agreement
    scenes        ambiguous words in shared frames, with clues
    plots         what happens: questions, conclusions, summaries
    tales         the public functions
    integers      random numbers that are the same everywhere
"""

from numformer.data.world.plots import CONTRADICTION, ENTAILMENT, NEUTRAL
from numformer.data.world.tales import (
    Claim, Question, Tale, joined, tale, tales, world_text, world_tokens)
from numformer.data.world.words import ENTITIES, SENSES, TAGS

__all__ = ["CONTRADICTION", "Claim", "ENTAILMENT", "ENTITIES", "NEUTRAL", "Question", "SENSES",
           "TAGS", "Tale", "joined", "tale", "tales", "world_text", "world_tokens"]
