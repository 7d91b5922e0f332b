"""Convolutions of images and pooling."""

FUNCTIONS = [
    ("convolution_2d_backward", "return dimages, dweight.reshape(weight.shape), dbias",
     "return dimages, dweight.reshape(weight.shape), dbias / (dy.shape[1] * dy.shape[2])",
     "averaged over the positions"),
    ("convolution_2d_backward", "dpadded[:, padding:padding + height, padding:padding + width]",
     "dpadded[:, :height, :width]", None),
    ("convolution_2d_backward, windows_2d_backward", "] += dwindows", "] = dwindows",
     "its last window only"),
    ("max_pooling_2d_backward", "np.put_along_axis(dwindows, largest, dy[:, :, :, None], axis=3)",
     "dwindows += dy[:, :, :, None]", "only the largest must get it"),
    ("mean_pooling_2d_backward", "dy / size ** 2", "dy", "1 / P^2 of the mean is missing"),
    ("mean_pooling_2d_backward", "dy / size ** 2", "dy / size", "a window has P^2 pixels"),
]

LAYERS = [
    ("Convolution2D.backward", "self.weight.grad += dweight", "self.weight.grad = dweight"),
    ("Convolution2D.backward", "self.bias.grad += dbias", "pass"),
    ("ConvolutionClassifier.backward", "dx = self.pooling.backward(dx, saved_pooling)",
     "dx = self.pooling.backward(dx, saved_convolutions[0][2])"),
    ("ConvolutionClassifier.backward",
     "dx = linear.backward(f_backward(dx, saved_activation), saved_map)",
     "dx = linear.backward(dx, saved_map)"),
]
