"""The loss of models that end in logits."""

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.parameter import Layer


class CrossEntropyModel(Layer):
    r"""A model with ``forward(*inputs, rng)`` to logits z, trained with cross-entropy.

    .. math:: L = \langle -\log \mathrm{softmax}(z_n)_{y_n} \rangle_n

    A batch is ``(*inputs, targets)``. Targets are classes (B,), or the next token at every position
    (B, T); `IGNORE_INDEX` excludes one. The attributes `label_smoothing` and `z_loss`, 0 unless
    set, affect the training loss only: see `cross_entropy`.
    """

    label_smoothing = z_loss = 0.0

    def loss(self, batch, rng=None):
        """(loss, saved): mean cross-entropy over a batch's targets, in nats; `rng` for dropout."""
        *inputs, targets = batch
        logits, saved_forward = self.forward(*inputs, rng=rng)
        loss, saved_loss = cross_entropy(logits, targets, label_smoothing=self.label_smoothing,
                                         z_loss=self.z_loss)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(*inputs), targets)
        self.backward(cross_entropy_backward(dloss, saved_loss), saved_forward)

    def evaluation_loss(self, batch):
        """The mean cross-entropy of a batch, without dropout, label smoothing or z-loss."""
        *inputs, targets = batch
        return cross_entropy(self(*inputs), targets)[0]
