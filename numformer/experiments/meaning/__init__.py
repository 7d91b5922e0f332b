"""What the vectors of words and sentences mean."""

EXPERIMENTS = {}
