"""What all models that read one text and write another have in common: their loss."""

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.parameter import Layer


class PairModel(Layer):
    """A model with ``forward(inputs, lengths, outputs, rng)`` to logits, whose config has a `label_smoothing`.

    `loss` and `loss_backward` are for a `Trainer`.
    """

    def loss(self, batch, rng=None):
        """Mean cross-entropy of a batch.

        Parameters
        ----------
        batch : PairBatch, or (inputs, lengths, outputs, targets)
            Targets (B, T) are the outputs one token on, or `IGNORE_INDEX`.
        rng : numpy.random.Generator, optional

        Returns
        -------
        loss : scalar, nats a target
        saved : tuple
        """
        inputs, lengths, outputs, targets = batch
        logits, saved_forward = self.forward(inputs, lengths, outputs, rng)
        loss, saved_loss = cross_entropy(logits, targets, label_smoothing=self.config.label_smoothing)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(inputs, lengths, outputs), targets)
        self.backward(cross_entropy_backward(dloss, saved_loss), saved_forward)

    def evaluation_loss(self, batch):
        """Mean cross-entropy of a batch, without what training adds to it."""
        inputs, lengths, outputs, targets = batch
        return cross_entropy(self(inputs, lengths, outputs), targets)[0]
