"""Encoders of the small world: pre-trained on its tales, fine-tuned on their labels."""

from numformer.recipes.world import answers, entailment, tags, world_bert

PRESETS = {**world_bert.PRESETS, **tags.PRESETS, **answers.PRESETS, **entailment.PRESETS}
