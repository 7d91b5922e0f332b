"""From imitation to rewards: decoders that answer prompts whose answers a rule verifies.

    imitation    start here: the task, and presets that learn from demonstrations
    rewards      the rounds of learning from rewards: sample, score, learn
"""

from numformer.recipes.alignment import imitation, rewards

PRESETS = {**imitation.PRESETS, **rewards.PRESETS}
