"""Images: convolutions, attention, and how much data each needs."""

EXPERIMENTS = {}
