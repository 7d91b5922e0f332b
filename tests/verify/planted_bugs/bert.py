"""BERT's heads and models, cosine similarity and the triplet loss."""

FUNCTIONS = [
    ("cosine_similarity_backward", "ds @ b_hat, ds.T @ a_hat",
     "ds @ b_hat, ds.T @ b_hat[:1].repeat(len(a_hat), 0)", None),
    ("cosine_similarity_backward, normalized_backward",
     " - x_hat * (x_hat * dx_hat).sum(axis=-1, keepdims=True)", "",
     "norms are treated as constants"),
    ("cosine_similarity_backward, normalized_backward", "scale * (dx_hat", "(dx_hat",
     "1 / |a| is missing"),
    ("cosine_similarity_backward, normalized_backward",
     "(x_hat * dx_hat).sum(axis=-1, keepdims=True)", "(x_hat * dx_hat)", None),
    ("triplet_loss_backward", "/ len(active)", "* 1", "mean over the triplets is missing"),
    ("triplet_loss_backward", "np.where(active, float(dloss) / len(active), 0)",
     "np.full(active.shape, float(dloss) / len(active))",
     "satisfy the margin get a gradient"),
    ("triplet_loss_backward", "dnear - dfar, -dnear", "dnear, -dnear",
     "term of the negative is missing"),
    ("triplet_loss_backward", "-dnear, dfar", "dnear, dfar", None),
]

LAYERS = [
    ("ClassPooler.backward", "dy * (1 - y * y)", "dy"),
    ("MaskedTokenHead.backward", "self.bias.grad += dy.sum(axis=tuple(range(dy.ndim - 1)))",
     "self.bias.grad += dy.sum(axis=0)[0]"),
    ("MaskedTokenHead.backward", "gelu_backward(self.norm.backward(dh, saved_norm), saved_gelu)",
     "self.norm.backward(dh, saved_norm)"),
    ("BertEncoder.backward",
     "self.norm.backward(self.dropout.backward(dx, saved_dropout), saved_norm)", "dx"),
    ("BertEncoder.backward", "self.segments.backward(dx, saved_segments)", "pass"),
    ("BertEncoder.backward", "dx = self.positions.backward(dx, saved_positions)", "pass"),
    ("BertClassifier.backward", "self.pooler.backward(dx, saved_pooler)",
     "np.repeat(dx[:, None], saved_backbone[-1][1].shape[1], 1)"),
    ("SentenceBert.backward", "self.pooling.backward(dy, saved_pooling)",
     "0 * self.pooling.backward(dy, saved_pooling)"),
]
