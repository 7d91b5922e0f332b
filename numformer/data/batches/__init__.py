"""Batches: random ones for training, and all examples in their order for evaluation.

A stream draws random numbers from ``default_rng([seed, k, ...])``, with a k of its own for each
purpose: 1 shuffling or positions, 3 batches by length, 4 noise, 5 static masks, 6 dynamic masks, 7
curriculum, 8 wrong inputs, 9 contexts. Elsewhere, 0 is for initial weights, 2 for dropout, 3 for
samples.
"""
