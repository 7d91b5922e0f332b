"""The logit lens ends with the model's logits; contributions sum to a logit."""

import numpy as np
import pytest

from inspected_decoder import IDS, decoder
from numformer import plots
from numformer.analysis import logit_contributions, logit_lens, residual_stream
from numformer.functional import softmax


def test_logit_lens_ends_with_the_models_logits():
    model = decoder()
    lens = logit_lens(model, IDS)
    stream = residual_stream(model, IDS)["blocks"]
    assert lens.shape == (4, 1, 6, 7) and np.array_equal(lens[-1], model(IDS))
    assert np.array_equal(lens[0], model.head(model.norm(stream[0])))
    ax = plots.lens_map(lens[:, 0], list("abcdefg"), list("bcdefg")).axes[0]
    np.testing.assert_allclose(ax.images[0].get_array(), softmax(lens[:, 0])[0].max(axis=-1))
    best = lens[:, 0].argmax(axis=-1).ravel()
    assert [text.get_text() for text in ax.texts] == ["abcdefg"[k] for k in best]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "embedding", "block 1", "block 2", "block 3"]
    long = plots.lens_map(np.tile(lens[:, 0], (1, 3, 1)), list("abcdefg"), list("bcdefg") * 3)
    assert [len(panel.texts) for panel in long.axes] == [36, 36, 0], "two panels of 9 tokens"


@pytest.mark.parametrize("options", [
    {}, dict(bias=False), dict(norm="rms_norm", feedforward="swiglu", positions="rotary"),
    dict(tied=False, n_experts=4, experts_per_token=2), dict(norm="rms_norm", epsilon=0.1),
    dict(lm_head_bias=True), dict(lm_head_bias=True, norm="rms_norm")],
    ids=str)
@pytest.mark.parametrize("epsilon_inside", [True, False])
def test_contributions_add_up_to_the_logit(options, epsilon_inside):
    model = decoder(**options)
    model.norm.epsilon_inside = epsilon_inside
    for _, parameter in model.named_parameters():            # weights and biases other than 1 and 0
        if parameter.data.ndim == 1:
            parameter.data += np.random.default_rng(1).standard_normal(parameter.data.shape) / 2
    for token, position in ((3, -1), (0, 2)):
        parts = logit_contributions(model, IDS, token, position)
        assert abs(sum(parts.values()) - model(IDS)[0, position, token]) < 1e-12
        assert list(parts)[:3] == ["embedding", "attention 1", "feed-forward 1"]
        assert ("bias" in parts) == ("lm_head_bias" in options or options.get("norm") != "rms_norm"
                                     and options.get("bias", True))
        assert len(parts) == 7 + ("bias" in parts) and min(map(abs, parts.values())) > 0
    ax = plots.contribution_bars(parts, "a")
    values = [*parts.values(), sum(parts.values())]
    assert [bar.get_width() for bar in ax.patches] == values
    assert [text.get_text() for text in ax.texts] == [f"{value:+.2f}" for value in values]
