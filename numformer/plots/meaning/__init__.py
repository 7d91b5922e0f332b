"""Pictures of what vectors and heads have learned: maps by label, scores of heads, a tale."""

from numformer.plots.meaning.by_class import values_by_class
from numformer.plots.meaning.head_scores import head_scores
from numformer.plots.meaning.maps import first_two_directions, labelled_maps
from numformer.plots.meaning.tale import attention_on_words

__all__ = ["attention_on_words", "first_two_directions", "head_scores", "labelled_maps",
           "values_by_class"]
