"""A decoder that learns from rewards: the loss of the answers that it has sampled."""

from dataclasses import dataclass

import numpy as np

from numformer.functional import (
    IGNORE_INDEX, policy_loss, policy_loss_backward, token_log_probs, token_log_probs_backward)
from numformer.models.decoder.config import DecoderConfig
from numformer.models.decoder.model import Decoder
from numformer.models.transformer import counts_with_experts, for_each_part


@dataclass(frozen=True, kw_only=True)
class PolicyDecoderConfig(DecoderConfig):
    """The config of a `PolicyDecoder`: that of its decoder."""


class PolicyDecoder(Decoder):
    r"""A `Decoder` whose loss is `policy_loss`: it learns from the advantages of its own answers.

    .. math:: z = \mathrm{decoder}(\mathrm{ids}), \qquad
              \ell_{nt} = \log \mathrm{softmax}(z_{nt})_{y_{nt}}, \qquad
              L = \mathrm{policy\_loss}(\ell, \ell^\mathrm{old}, A, \ell^\mathrm{ref})

    The gradient goes back through the three in turn: :math:`\bar\ell`, :math:`\bar z`, and that of
    the weights.

    A batch of its loss is (inputs, targets, advantages, old_log_probs, reference_log_probs):
    inputs and targets (N, T) of prompts and answers as from `answer_batch`, advantages (N,), and
    log-probabilities (N, T) of the policy that sampled and of the reference, which are constants.
    `evaluation_loss` is the cross-entropy of a `Decoder`, of inputs and targets alone.

    `clip_low`, `clip_high`, `beta` and `normalization`, "token" or "sequence", are attributes: see
    `policy_loss`. The divergence is estimated by k3.

    Parameters
    ----------
    config : PolicyDecoderConfig
    rng : numpy.random.Generator or None
        As of a `Decoder`.

    References
    ----------
    Schulman et al. (2017), eq. 7; Shao et al. (2024), "DeepSeekMath", eq. 3.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = PolicyDecoder(PolicyDecoderConfig(**sizes), np.random.default_rng(0))
    >>> inputs, targets = np.array([[1, 5, 2]]), np.array([[IGNORE_INDEX, 2, 0]])
    >>> old, _ = token_log_probs(model(inputs), targets)
    >>> loss, saved = model.loss((inputs, targets, np.array([0.5], np.float32), old, old))
    >>> round(float(loss), 6)                         # the policy that sampled: minus the advantage
    -0.5
    >>> model.loss_backward(saved)
    """

    config_class = PolicyDecoderConfig

    clip_low = clip_high = 0.2
    beta, normalization = 0.0, "token"

    def loss_counts(self, batch):
        """The numbers of tokens of answers, or of answers; and with experts that of rows."""
        _, targets, *_ = batch
        n, rows = counts_with_experts(self.config, targets)
        if self.normalization != "token":
            n = int((np.asarray(targets) != IGNORE_INDEX).any(axis=1).sum())
        return n, rows

    def loss_parts(self, batch, rng=None):
        """The `policy_loss` of a batch and the `auxiliary_loss`; and saved."""
        ids, targets, advantages, old, reference = batch
        logits, saved_forward = self.forward(ids, rng)                # (N, T, V)
        log_probs, saved_log_probs = token_log_probs(logits, targets)             # (N, T)
        counts, loss, saved_loss = targets != IGNORE_INDEX, 0.0, None
        if counts.any():                                              # not where all is padding
            loss, saved_loss = policy_loss(
                log_probs, old, advantages, counts, reference, self.clip_low, self.clip_high,
                self.beta, normalization=self.normalization)

        saved = (saved_forward, saved_log_probs, saved_loss, log_probs.shape)
        saved_features, _ = saved_forward
        return (loss, self.auxiliary_loss(saved_features)), saved

    def loss_backward(self, saved, dloss=1.0):
        saved_forward, saved_log_probs, saved_loss, shape = saved
        danswers, dauxiliary = for_each_part(dloss, 2)                # of one loss or of both

        # loss = policy_loss(log_probs, ...)
        dlog_probs = np.zeros(shape, self.config.dtype)
        if saved_loss is not None:
            dlog_probs = policy_loss_backward(danswers, saved_loss)

        # log_probs = token_log_probs(forward(ids), targets)
        dlogits = token_log_probs_backward(dlog_probs, saved_log_probs)
        self.backward(dlogits, saved_forward, dauxiliary)

    def evaluation_loss(self, batch):
        """The mean cross-entropy of the tokens of the answers of a batch."""
        ids, targets, *_ = batch
        return super().evaluation_loss((ids, targets))
