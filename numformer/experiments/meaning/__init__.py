"""What the vectors of words and sentences mean."""

from numformer.experiments.meaning import head_patterns, pronouns, word_neighbours, word_senses

EXPERIMENTS = {
    "head-patterns": head_patterns.PATTERNS_EXPERIMENT,
    "pronouns": pronouns.PRONOUNS_EXPERIMENT,
    "word-neighbours": word_neighbours.NEIGHBOURS_EXPERIMENT,
    "word-senses": word_senses.SENSES_EXPERIMENT,
}
