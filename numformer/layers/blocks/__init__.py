"""The Transformer block: `residual` has its branches, `block` runs them in sequence or parallel."""
