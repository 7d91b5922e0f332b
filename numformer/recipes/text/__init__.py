"""Language models of characters, and recall from the context."""

from numformer.recipes.text import characters, language_models, recall

PRESETS = {**characters.PRESETS, **language_models.PRESETS, **recall.PRESETS}
