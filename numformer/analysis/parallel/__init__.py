"""A training step on several machines: what communication costs, and schedules of a pipeline."""
