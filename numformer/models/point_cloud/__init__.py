"""A classifier of sets of points: the Transformer without positions.

    model      start here: the options, and the model
"""
