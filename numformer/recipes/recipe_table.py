"""Which kind of model has which recipe."""

from numformer.recipes.bert_recipes import BertEncoderRecipe, BertRecipe
from numformer.recipes.recipe import (
    CrossEntropyRecipe, DecoderClassifierRecipe, DecoderRecipe, EncoderDecoderRecipe, PolicyRecipe,
    Recipe)

RECIPES = {                                                           # by kind of model
    "Bert": BertRecipe,
    "BertClassifier": BertEncoderRecipe,
    "BertSpanClassifier": BertEncoderRecipe,
    "BertTokenClassifier": BertEncoderRecipe,
    "ConvolutionClassifier": CrossEntropyRecipe,
    "Decoder": DecoderRecipe,
    "DecoderClassifier": DecoderClassifierRecipe,
    "EncoderDecoder": EncoderDecoderRecipe,
    "NGramDecoder": DecoderRecipe,
    "PolicyDecoder": PolicyRecipe,
    "SentenceBert": BertEncoderRecipe,
    "Seq2Seq": CrossEntropyRecipe,
    "Swin": CrossEntropyRecipe,
    "TinyBert": BertEncoderRecipe,
    "VisionTransformer": CrossEntropyRecipe,
}


def recipe_of(kind, settings):
    """The recipe of a kind of model, with these settings: a dict.

    Examples
    --------
    >>> recipe_of("Decoder", {"zero_branches": True})  # doctest: +NORMALIZE_WHITESPACE
    DecoderRecipe(label_smoothing=0.0, z_loss=0.0, zero_branches=True, skip_connections=True,
                  norms=True)
    >>> recipe_of("RecurrentLanguageModel", {})
    Recipe()
    """
    return RECIPES.get(kind, Recipe).from_dict(settings)
