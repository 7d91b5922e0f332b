"""What multi-head attention says of itself: for diagrams, counts and costs."""

from numformer.description import Description, Row
from numformer.functional import attention_weights
from numformer.parameter import Layer

WEIGHTS = (r"ds = p\,(dp - \Sigma\,p\,dp)", r"dq = ds\,k / \sqrt{D}",
           r"dk = ds^\top q / \sqrt{D}")


class DescribedAttention(Layer):
    """The base of `MultiHeadAttention` that describes it."""

    reads_of = ""                                     # what queries and keys are made of

    def describe(self):
        H, D, G = self.n_heads, self.d_head, self.n_kv_heads
        more = [f"{G} of keys and values" if G != H else "", self.positions.in_words,
                "RMSNorm of q and k" if self.query_norm.drawn else ""]
        return Description(
            "Multi-head attention",
            ", ".join(filter(None, [f"{H} head{'s' * (H > 1)} of {D}", *more])),
            (r"do = dy\,W_o^\top", r"dv = p^\top do", r"dp = do\,v^\top", *WEIGHTS,
             r"dx = dq\,W_q^\top + dk\,W_k^\top + dv\,W_v^\top"),
            keys=H * (D + self.d_value), cache=G * (D + self.d_value))

    def describe_parts(self, reader, box):
        """Queries, keys and values; the weights; the sum of values; the output projection."""
        (B, T, _), S = box.shape, "S" if box.reads_memory else box.shape[1]
        H, D = reader.letter("H", self.n_heads), reader.letter("D", self.d_head)
        G = H if self.n_kv_heads == self.n_heads else reader.letter("G", self.n_kv_heads)
        read = dict(reads_input=False, detail="of the memory") if box.reads_memory else {}
        rotary = self.positions if self.positions.layout is not None else None
        queries, keys = ((
            reader.box((B, heads, length, D), part, name=f"{name} projection",
                       **{"detail": self.reads_of} | more),
            *reader.boxes((B, heads, length, D), norm, rotary))
            for heads, length, part, norm, name, more in (
                (H, T, self.query, self.query_norm, "Query", {}),
                (G, S, self.key, self.key_norm, "Key", read)))
        values = reader.box((B, G, S, reader.letter("D", self.d_value)), self.value,
                            name="Value projection", **{"detail": ""} | read),
        o = reader.function((B, H, T, D), "Weighted sum of values", type(self), "o = p v",
                            (r"dp = do\,v^\top", r"dv = p^\top do"))
        output = reader.box(box.shape, self.output, name="Output projection", detail="")
        weights = self._weights_box(reader, (B, H, T, S), box.name.startswith("Masked"))
        return Row(((Row((queries, keys)), weights), values)), o, output

    def _weights_box(self, reader, shape, masked):
        scores = "q kᵀ / √D" if self.scale is None else (
            "q kᵀ" if self.scale == 1 else f"{self.scale:.3g} q kᵀ")
        term = self.positions.score_term
        box = reader.function(
            shape, "Attention weights", attention_weights,
            f"softmax({scores}{f' + {term}' if term else ''}{' + mask' * masked})", WEIGHTS)
        return box._replace(parameters=sum(
            each.data.size for each in self.positions.parameters())) if term else box
