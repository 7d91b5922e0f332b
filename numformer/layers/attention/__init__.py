"""Attention layers. Read in this order:

    attention         the layer itself: queries are given, keys and values are made of the data
    self_attention    the queries are made of the data, too
    multi_head        several heads at once, and an output projection: that of the Transformer
    tiled             the same weights, tile by tile: `MultiHeadAttention(tile=64)`

`kv_cache` is what decoding keeps; `score_attention` the predecessor in recurrent models;
`fixed_weights` what is left without queries and keys; `efficient` has cheaper forms.
"""
