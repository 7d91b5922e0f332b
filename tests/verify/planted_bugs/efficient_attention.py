"""Linear, low-rank and sparse attention."""

FUNCTIONS = [
    ("linear_attention_backward", "-(do * o).sum(axis=-1, keepdims=True)",
     "0 * (do * o).sum(axis=-1, keepdims=True)", "gradient through the denominator is missing"),
    ("linear_attention_backward", "db * slopes(k, b, -c)", "db", None),
    ("linear_attention_backward",
     "    dq = da * slopes(q, a, c - c0, q0)\n    dk = db * slopes(k, b, -c)\n",
     "    dq, dk = da, db\n", "derivative of the features"),
    ("linear_attention_backward", 'product(w, dn, a, chunks, scaled="w", from_the_end=True)',
     'product(w, dn, a, chunks, scaled="w")', "from j on"),
    ("linear_attention_backward", "dw = product(b, a, dn, chunks, from_the_end=True)",
     "dw = product(b, a, dn * total, chunks, from_the_end=True)", "dv is not divided"),
    ("low_rank_attention_backward", "(dmixed_k @ k.mT).sum(axis=(0, 1))",
     "(dmixed_k @ k.mT)[0].sum(axis=0)", None),
    ("low_rank_attention_backward", "dmixed_v @ v.mT", "dmixed_v @ k.mT", None),
    ("low_rank_attention_backward", "value_projection.T @ dmixed_v", "key_projection.T @ dmixed_v",
     None),
    ("sparse_attention_backward", "do * v[:, :, column]", "do * v[:, :, 0 * column]", None),
    ("sparse_attention_backward", "softmax_backward(dp, saved_softmax) * scale",
     "p * dp * scale", "lacks its sum"),
    ("sparse_attention_backward", "dscores[..., m, None] * q)",
     "dscores[..., m, None] * q / scale)", "1 / sqrt(D) is missing in dk"),
    ("sparse_attention_backward, add_rows", "order = order[rows[order] >= 0]",
     "order = order[rows[order] >= 1]", None),
]

LAYERS = [
    ("LinearAttention.attend_backward", "linear_attention_backward(do, saved)",
     "linear_attention_backward(do, (*saved[:-1], None))"),
    ("LowRankAttention.attend_backward", "self.value_projection.grad += dvalue_projection",
     "self.value_projection.grad += dkey_projection"),
    ("SparseAttention.attend_backward", "sparse_attention_backward(do, saved)",
     "[2 * d for d in sparse_attention_backward(do, saved)]"),
]
