"""Attention layers: `multi_head` is that of the Transformer, `kv_cache` what its decoding keeps,
`score_attention` its predecessor in recurrent models, `fixed_weights` what is left without queries
and keys.
"""
