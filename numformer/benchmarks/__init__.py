"""Benchmarks against PyTorch: alternating runs in one process, on the same threads."""
