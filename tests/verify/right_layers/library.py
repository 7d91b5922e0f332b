"""Layers of numformer with odd settings and awkward inputs."""

import numpy as np

from numformer import functional as F
from numformer.functional import AttentionPattern
from numformer.layers import FeedForward, LayerNorm, Linear, MultiHeadAttention, RMSNorm

rng = np.random.default_rng(19)
X = rng.standard_normal((2, 3, 4))
PADDED = X.copy()
PADDED[1, 1:] = 0
CAUSAL = AttentionPattern(causal=True)


def feed_forward(activation):
    return FeedForward(4, 6, activation, np.random.default_rng(0), dtype=np.float64)


def attention(**options):
    return MultiHeadAttention(4, 2, np.random.default_rng(0), dtype=np.float64, **options)


CASES = [
    ("ReLU feed-forward on zero rows", feed_forward("relu"), [PADDED], {}),
    ("GELU feed-forward, inputs of 30", feed_forward("gelu"), [30 * X], {}),
    ("linear of width 1", Linear(1, 1, np.random.default_rng(0), dtype=np.float64),
     [np.array([[2.0]])], {}),
    ("layer norm of 1e-9", LayerNorm(4, dtype=np.float64), [1e-9 * X], {}),
    ("RMS norm of 1e9", RMSNorm(4, dtype=np.float64), [1e9 * X], {}),
    ("RMS norm of zeros", RMSNorm(4, dtype=np.float64), [np.zeros((1, 4))], {}),
    ("attention, one position", attention(), [X[:, :1]], {}),
    ("attention, zero rows", attention(), [PADDED], {}),
    ("attention, scores of 1e3", attention(), [30 * X], {}),
    ("attention, causal", attention(), [X], {"options": {"pattern": CAUSAL}}),
    ("cross-entropy, saturated",
     (lambda logits: F.cross_entropy(logits, np.array([0, 2, 1])), F.cross_entropy_backward),
     [np.array([[0.0, 25.0, -20.0], [1.0, 2.0, 40.0], [0.0, 0.0, 0.0]])], {}),
]
