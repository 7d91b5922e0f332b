"""An embedding: look up a vector for every id.

y_bt = W[ids_bt]
"""
# goal: see a table as a layer
# needs: nothing
# ideas: an array as an index
# points: 1
# checks: embedding


def embedding(ids, weight):
    """ids (B, T) of int, weight (V, C) to y (B, T, C)."""
    # BEGIN SOLUTION
    return weight[ids]
    # END SOLUTION
