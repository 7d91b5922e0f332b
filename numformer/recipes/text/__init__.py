"""Language models of characters, recall from the context, and music."""

from numformer.recipes.text import characters, language_models, music, recall

PRESETS = {**characters.PRESETS, **language_models.PRESETS, **recall.PRESETS,
           **music.PRESETS}
