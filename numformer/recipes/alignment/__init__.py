"""Answers that a rule verifies: imitation, then rewards."""

from numformer.recipes.alignment import imitation, rewards

PRESETS = {**imitation.PRESETS, **rewards.PRESETS}
