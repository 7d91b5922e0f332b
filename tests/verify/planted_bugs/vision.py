"""BatchNorm, patches, pooling, the encoder, and models of images, of series and of points."""

FUNCTIONS = [
    ("quantile_loss_backward", "* -float(", "* float("),
    ("masked_batch_norm_backward", "dy[mask], saved_norm", "0.5 * dy[mask], saved_norm"),
    ("batch_norm_backward", "dbias = dvectors.sum(axis=0)", "dbias = dvectors.mean(axis=0)"),
]

LAYERS = [
    ("BatchNorm.backward", "self.weight.grad += dweight", "self.weight.grad = dweight"),
    ("BatchNorm.backward", "self.bias.grad += dbias", "pass"),
    ("PatchEmbedding.backward", "self.weight.grad += dweight", "pass"),
    ("PatchEmbedding.backward", "self.bias.grad += dbias", "self.bias.grad -= dbias"),
    ("LearnedPositions2D.vectors_backward", "dp[..., :half].sum(axis=1)",
     "dp[..., half:].sum(axis=1)"),
    ("LearnedPositions2D.vectors_backward", "dp[..., half:].sum(axis=0)",
     "dp[..., half:].mean(axis=0)"),
    ("Pooling.backward", "dx[:, 0] = dy", "dx[:, -1] = dy"),
    ("Encoder.backward", "self.norm.backward(dy, saved_norm)", "dy"),
    ("CLIPTextEncoder.backward", "ends] = drows", "-1] = drows"),
    ("CLIPTextEncoder.backward", "return self.input.backward(dx, saved_input)", "pass"),
    ("CLIP.backward", "(dcosines * cosines).sum()", "(dlogits * cosines).sum()"),
    ("CLIP.backward", "dcosines = scale * dlogits", "dcosines = dlogits"),
    ("CLIP.backward", "self.text.backward(dv, saved_text)", "pass"),
    ("VisionTransformer.backward", "dx[:, :K].sum(axis=0)", "dx[:, :K].mean(axis=0)"),
    ("VisionTransformer.backward", "dx = self.positions.backward(dx, saved_positions)", "pass"),
    ("VisionTransformer.backward", "dx = self.dropout.backward(dx, saved_dropout)", "pass"),
    ("VisionLanguageModel.backward", "self.embedding.backward(np.ascontiguousarray(dx[:, P:]), "
     "saved_embedding)", "pass"),
    ("VisionLanguageModel.backward", "(P, 0), (0, 0)", "(0, P), (0, 0)"),
    ("VisionLanguageModel.backward", "dx = self.positions.backward(dx, saved_positions)", "pass"),
    ("Forecaster.backward", "dx = self.positions.backward(dx, saved_positions)", "pass"),
    ("Forecaster.loss_backward", "quantile_loss_backward(dloss, saved_loss)",
     "quantile_loss_backward(1.0, saved_loss)"),
    ("PointCloudClassifier.backward", "dx = self.dropout.backward(dx, saved_dropout)", "pass"),
    ("PointCloudClassifier.backward", "return self.input.backward(dx, saved_input)",
     "return 2 * self.input.backward(dx, saved_input)"),
]
