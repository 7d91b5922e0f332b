"""DETR (Carion et al. 2020): objects in an image as a set, predicted all at once.

    config        start here: the options
    block         attention with positions in every layer, for encoder and decoder
    deformable    attention to a few points near a reference, where it is asked for
    heads         the class and the box of every object query
    model         the whole, and its loss with bipartite matching
"""
