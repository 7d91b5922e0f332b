"""The Vision Transformer (Dosovitskiy et al. 2020): patches of an image, read as tokens.

    model      start here: the options, the model, and the published sizes
    weights    tables of published weights
"""
