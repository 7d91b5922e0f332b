"""Random q, k, v and do for the tests of the attention kernel."""

import numpy as np


def random(rng, B=1, H=2, T=70, S=70, G=2, D=8, dtype=np.float64):
    q, do = rng.standard_normal((2, B, H, T, D)).astype(dtype)
    k, v = rng.standard_normal((2, B, G, S, D)).astype(dtype)
    return q, k, v, do
