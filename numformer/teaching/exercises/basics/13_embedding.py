"""An embedding: look up a vector for every id.

y_bt = W[ids_bt]
"""
# goal: see a table as a layer
# needs: nothing
# lessons: 0
# ideas: an array as an index
# points: 1
# checks: embedding


def embedding(ids, weight):
    """ids (...) of int with any number of axes, weight (V, C) to y (..., C)."""
    # BEGIN SOLUTION
    return weight[ids]
    # END SOLUTION
