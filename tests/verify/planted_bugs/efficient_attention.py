"""Linear, low-rank and sparse attention."""

FUNCTIONS = [
    ("linear_attention_backward", "db * slopes(k, b, -c)", "db"),
    ("low_rank_attention_backward", "(dmixed_k @ k.mT).sum(axis=(0, 1))",
     "(dmixed_k @ k.mT)[0].sum(axis=0)"),
    ("low_rank_attention_backward", "dmixed_v @ v.mT", "dmixed_v @ k.mT"),
    ("low_rank_attention_backward", "value_projection.T @ dmixed_v", "key_projection.T @ dmixed_v"),
    ("sparse_attention_backward", "do * v[:, :, column]", "do * v[:, :, 0 * column]"),
    ("sparse_attention_backward, add_rows", "order = order[rows[order] >= 0]",
     "order = order[rows[order] >= 1]"),
]

LAYERS = [
    ("LinearAttention.attend_backward", "linear_attention_backward(do, saved)",
     "linear_attention_backward(do, (*saved[:-1], None))"),
    ("LowRankAttention.attend_backward", "self.value_projection.grad += dvalue_projection",
     "self.value_projection.grad += dkey_projection"),
    ("SparseAttention.attend_backward", "sparse_attention_backward(do, saved)",
     "[2 * d for d in sparse_attention_backward(do, saved)]"),
]
