"""Encoder-decoders."""

LAYERS = [
    ("CrossAttentionBranch._sublayer_backward", "self.sublayer.backward(dy, saved)",
     "(self.sublayer.backward(dy, saved)[0], 0 * self.sublayer.backward(dy, saved)[1])"),
    ("TransformerBlock.backward", "return (dx, dmemory)", "return (dx, 2 * dmemory)"),
    ("ParallelBlock.backward", "return (dx, dmemory)", "return (dx, 2 * dmemory)"),
    ("EncoderDecoder.backward", "dmemory = dmemory_of_block + dmemory",
     "dmemory = dmemory_of_block"),
    ("EncoderDecoder.backward", "self._embed_backward(dx, saved_outputs, *self._output_parts)",
     "pass"),
    ("EncoderDecoder.backward", "self._encode_backward(dmemory, saved_memory,",
     "self._encode_backward(2 * dmemory, saved_memory,"),
    ("EncoderDecoder.backward", "reversed(self.blocks), reversed(saved_blocks)",
     "self.blocks, saved_blocks"),
]
