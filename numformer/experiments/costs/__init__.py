"""Time, memory, operations and data: what a loss costs."""

EXPERIMENTS = {}
