"""What a decoder learns from its prompt alone."""

EXPERIMENTS = {}
