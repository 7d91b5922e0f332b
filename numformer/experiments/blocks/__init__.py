"""What the parts of a block are for: skip connections, norms, gates."""

EXPERIMENTS = {}
