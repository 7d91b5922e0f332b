"""Losses of a text's tokens by windows of any context, and distributions of large logits."""

import numpy as np
import pytest

from numformer.analysis.predictions import next_token_distribution, token_losses
from numformer.functional import log_softmax
from numformer.models import Decoder, DecoderConfig


@pytest.mark.parametrize("context", [1, 2, 3, 5, 20])
def test_a_token_is_predicted_from_at_least_half_a_context(context):
    """A token after the first window is predicted from what its own window holds."""
    config = DecoderConfig(vocab_size=7, context_length=context, n_layers=1, n_heads=1, d_model=8)
    model = Decoder(config, np.random.default_rng(0))
    ids = np.random.default_rng(1).integers(0, 7, 12)
    step = {1: 1, 2: 1, 3: 1, 5: 2, 20: 10}[context]
    expected = []
    for t in range(1, len(ids)):
        windows_before = max(0, -(-(t - context) // step))
        first = windows_before * step
        expected.append(-log_softmax(model(ids[None, first:t])[0, -1])[0][ids[t]])
    np.testing.assert_allclose(token_losses(model, ids), expected, rtol=1e-5)


def test_a_distribution_does_not_depend_on_the_size_of_the_logits():
    logits = np.log([0.5, 0.2, 0.3])
    for shift in (-5000.0, 5000.0):
        np.testing.assert_allclose(next_token_distribution(logits + shift), [0.5, 0.2, 0.3])
