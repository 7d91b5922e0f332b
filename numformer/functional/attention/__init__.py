"""Attention, one idea a file, from the plain function to the tiled one. Read in this order:

    core                  attention(q, k, v, mask) and its backward: start here
    masks                 AttentionPattern: causal, window, padding, packed documents
    modifiers             what changes the scores: soft cap, ALiBi, bias by distance
    grouped_heads         several query heads share one key-value head
    dropout               single weights set to 0
    scaled_dot_product    all of it composed: the public function
    tiled                 the same numbers, without ever holding the T x S weights

Next to the ladder: `shaw` and `relative_attention` (learned vectors of distances), `efficient`
(linear, low-rank and sparse attention), `scores` and `additive` (older score functions),
`fixed_weights` (weights without queries and keys), `nonfinite` (NaN and Inf behind a mask),
`arguments` (checks).
"""
