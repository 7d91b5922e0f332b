"""Convolutions of images, pooling, and the windows of Swin."""

FUNCTIONS = [
    ("convolution_2d_backward", "dpadded[:, padding:padding + height, padding:padding + width]",
     "dpadded[:, :height, :width]"),
    ("deformable_attention_backward", "dfactor * row_factor * column_slope",
     "dfactor * column_slope"),
]

LAYERS = [
    ("Convolution2D.backward", "self.weight.grad += dweight", "self.weight.grad = dweight"),
    ("Convolution2D.backward", "self.bias.grad += dbias", "pass"),
    ("ConvolutionClassifier.backward", "dx = self.pooling.backward(dx, saved_pooling)",
     "dx = self.pooling.backward(dx, saved_convolutions[0][2])"),
    ("ConvolutionClassifier.backward",
     "dx = linear.backward(f_backward(dx, saved_activation), saved_map)",
     "dx = linear.backward(dx, saved_map)"),
    ("WindowAttention.backward", "dy = cyclic_roll_backward(dy, saved_back)", "pass"),
    ("WindowAttention.backward", "return cyclic_roll_backward(dx, saved_roll)", "return dx"),
    ("WindowAttention.backward", "return cyclic_roll_backward(dx, saved_roll)",
     "return cyclic_roll_backward(dx, saved_back)"),
    ("DeformableAttention.backward", "softmax_backward(da, saved_softmax).reshape(B, T, -1)",
     "da.reshape(B, T, -1)"),
    ("DeformableAttention.backward", "(dlocations / self.sides(shapes))", "dlocations"),
    ("DeformableAttention.backward", "dlocations.sum(axis=(1, 3, 4))", "dlocations[:, 0, :, 0, 0]"),
    ("PatchMerging.backward", "dy = self.norm.backward(dy, saved_norm)", "pass"),
    ("Swin.backward", "self.stages.backward(dx, saved_stages)",
     "type(self.stages)(self.stages[1:]).backward(dx, saved_stages[1:])"),
    ("Swin.backward", "dx = self.embedding_norm.backward(dx, saved_embedding_norm)", "pass"),
]
