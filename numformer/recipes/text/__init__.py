"""Language models of characters."""

from numformer.recipes.text import characters, language_models

PRESETS = {**characters.PRESETS, **language_models.PRESETS}
