"""What models that predict the targets of a batch from all that comes before them in it have in common: their loss."""

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.parameter import Layer


class Predictor(Layer):
    """A model with ``forward(*inputs, rng)`` to logits, whose config has a `label_smoothing`.

    Its batches are ``(*inputs, targets)``. `loss` and `loss_backward` are for a `Trainer`.
    """

    def loss(self, batch, rng=None):
        """Mean cross-entropy of a batch, with what label smoothing adds.

        Parameters
        ----------
        batch : tuple (*inputs, targets)
            Targets are ndarray of int, of the logits' shape without its last axis: classes, or `IGNORE_INDEX`.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        loss : scalar, nats a target
        saved : tuple
        """
        *inputs, targets = batch
        logits, saved_forward = self.forward(*inputs, rng=rng)
        loss, saved_loss = cross_entropy(logits, targets, label_smoothing=self.config.label_smoothing)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(*inputs), targets)
        self.backward(cross_entropy_backward(dloss, saved_loss), saved_forward)

    def evaluation_loss(self, batch):
        """Mean cross-entropy of a batch alone, without what training adds to it."""
        *inputs, targets = batch
        return cross_entropy(self(*inputs), targets)[0]
