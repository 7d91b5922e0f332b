"""Batches: random ones for training, and all examples in their order for evaluation.

A stream is a function of a seed and a step: its random numbers are a branch of the seed
(`numformer.seeds`).
"""
