"""What the vectors of words and sentences mean."""

from numformer.experiments.meaning import (
    answer_retrieval, head_patterns, pronouns, sentence_objectives, word_neighbours, word_senses)

EXPERIMENTS = {
    "answer-retrieval": answer_retrieval.RETRIEVAL_EXPERIMENT,
    "head-patterns": head_patterns.PATTERNS_EXPERIMENT,
    "pronouns": pronouns.PRONOUNS_EXPERIMENT,
    "sentence-objectives": sentence_objectives.OBJECTIVES_EXPERIMENT,
    "word-neighbours": word_neighbours.NEIGHBOURS_EXPERIMENT,
    "word-senses": word_senses.SENSES_EXPERIMENT,
}
