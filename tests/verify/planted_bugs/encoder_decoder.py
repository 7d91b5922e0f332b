"""Encoder-decoders."""

LAYERS = [
    ("CrossAttentionBranch._sublayer_backward", "self.sublayer.backward(dy, saved)",
     "(self.sublayer.backward(dy, saved)[0], 0 * self.sublayer.backward(dy, saved)[1])"),
    ("TransformerBlock.backward", "return (dx, dmemory)", "return (dx, 2 * dmemory)"),
    ("ParallelBlock.backward", "return (dx, dmemory)", "return (dx, 2 * dmemory)"),
    ("Stack.backward", "dmemory_of_block + dmemory", "dmemory_of_block"),
    ("EncoderDecoder.backward", "self.output.backward(dx, saved_outputs)", "pass"),
    ("EncoderDecoder.backward", "self._encode_backward(dmemory, saved_memory,",
     "self._encode_backward(2 * dmemory, saved_memory,"),
]
