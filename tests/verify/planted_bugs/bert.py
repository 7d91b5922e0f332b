"""BERT's heads and models, cosine similarity and the triplet loss."""

FUNCTIONS = [
    ("cosine_similarity_backward", "ds @ b_hat, ds.T @ a_hat",
     "ds @ b_hat, ds.T @ b_hat[:1].repeat(len(a_hat), 0)"),
    ("cosine_similarity_backward, normalized_backward",
     "(x_hat * dx_hat).sum(axis=-1, keepdims=True)", "(x_hat * dx_hat)"),
    ("contrastive_loss_backward", "drows + ", "2 * drows + 0 * "),
    ("cosine_regression_loss_backward", "derror * u_hat", "derror * v_hat"),
    ("triplet_loss_backward", "-dnear, dfar", "dnear, dfar"),
]

LAYERS = [
    ("ClassPooler.backward", "POOLER_ACTIVATIONS[self.activation][1](dy, saved_activation)", "dy"),
    ("MaskedTokenHead.backward", "self.bias.grad += dy.sum(axis=tuple(range(dy.ndim - 1)))",
     "self.bias.grad += dy.sum(axis=0)[0]"),
    ("PredictionHead.backward", "gelu_backward(self.norm.backward(dy, saved_norm), saved_gelu)",
     "self.norm.backward(dy, saved_norm)"),
    ("PooledHead.backward", "self.pooling.backward(self.head.backward(dy, saved_head), "
     "saved_pooling)", "self.pooling.backward(dy, saved_pooling)"),
    ("InputEmbedding.backward",
     "self.norm.backward(self.dropout.backward(dx, saved_dropout), saved_norm)", "dx"),
    ("InputEmbedding.backward", "self.segments.backward(dx, saved_segments)", "pass"),
    ("BertClassifier.backward", "self.pooler.backward(dx, saved_pooler)",
     "np.repeat(dx[:, None], saved_backbone[-1][1].shape[1], 1)"),
    ("BertTokenClassifier.backward", "self.dropout.backward(dx, saved_dropout)", "dx"),
    ("BertTokenClassifier.backward", "self.classes.backward(dlogits, saved_classes)",
     "0 * self.classes.backward(dlogits, saved_classes)"),
    ("BertSpanClassifier.backward", "dlogits.transpose(0, 2, 1)",
     "dlogits[:, ::-1].transpose(0, 2, 1)"),
    ("BertSpanClassifier.backward", "np.where(real, dlogits, dlogits.dtype.type(0))", "dlogits"),
    ("SentenceBert._classification_loss_backward", "pair_features_backward(dfeatures",
     "pair_features_backward(2 * dfeatures"),
    ("SentenceBert.loss_backward", "self.backward(dp, saved_p)", "pass"),
    ("SentenceBert.backward", "self.pooling.backward(dy, saved_pooling)",
     "0 * self.pooling.backward(dy, saved_pooling)"),
]
