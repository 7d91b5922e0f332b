"""Benchmarks against PyTorch and others: alternating runs in one process, on the same threads."""
