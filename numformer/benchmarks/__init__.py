"""Measurements beside PyTorch: both sides in turns, in one process, on the same threads."""
