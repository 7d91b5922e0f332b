"""Noise that a model learns to undo: masked tokens, corrupted spans, permuted sentences."""
