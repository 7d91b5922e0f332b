"""The Transformer block: `residual` has its branches, `block` runs them in sequence, `parallel`
side by side.

`add_and_norm` is the sum of a branch and the norm that reads it in one function, `in_one_pass` a
block of such sums, `branched` what all blocks share; `plain` is a block without skip connections.
"""
