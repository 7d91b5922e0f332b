"""Weights, metrics and a reader of texts that several tests of plots share."""

from numformer.functional import CAUSAL, attention_weights

METRICS = [{"step": 1, "learning_rate": 0.1, "gradient_norm": 2.0},
           {"step": 2, "learning_rate": 0.2, "gradient_norm": 1.0,
            "update_ratio": {"blocks.0.w": 0.1, "blocks.1.w": 0.3, "head.w": 0.5}},
           {"step": 2, "val_loss": 1.0}]


def causal_weights(rng, L=2, H=3, T=5):
    """Causal attention weights (H, T, T) of L layers, from random queries and keys."""
    return [attention_weights(*rng.standard_normal((2, 1, H, T, 4)), CAUSAL)[0] for _ in range(L)]


def texts(ax):
    """The texts drawn on the axes, in order."""
    return [text.get_text() for text in ax.texts]
