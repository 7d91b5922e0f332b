"""The Transformer block: `residual` has its branches, `block` runs them in sequence or parallel.

`add_and_norm` is the sum of a branch and the norm that reads it, in one pass; `plain` is a
block without skip connections.
"""
