"""The Vision Transformer (Dosovitskiy et al. 2020): patches of an image, read as tokens.

    model    the options, the model, and the published sizes
"""
