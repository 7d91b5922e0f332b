"""An embedding: look up a vector for every id.

y_bt = W[ids_bt]
"""
# goal: see a table as a layer
# needs: nothing
# ideas: an array as an index
# points: 1
# checks: embedding
# BEGIN HINTS
# 1. In NumPy, an array of integers can be the index of another array.
# 2. An index of shape (B, T) into the rows of a table (V, C) gives (B, T, C).
# 3. y = weight[ids].
# END HINTS


def embedding(ids, weight):
    """ids (B, T) of int, weight (V, C) to y (B, T, C)."""
    # BEGIN SOLUTION
    return weight[ids]
    # END SOLUTION
