"""The scores of one tile, J keys by I queries, and the gradients of what modifies them."""

import numpy as np

from numformer.kernels.runtime.arithmetic import product, tanh
from numformer.kernels.runtime.compile import inlined


@inlined
def tile_scores(options, h, i0, j0, k_j, q_t, s, cap_slope):
    """s = cap(scale k q') - slope * distance + bias; `cap_slope` receives the slope of the cap."""
    product(options.scale, k_j, q_t, s, False)                                  # (J, D) (D, I)
    J, I = s.shape
    if options.softcap > 0:
        one = options.softcap / options.softcap
        for j in range(J):
            for i in range(I):
                t = tanh(s[j, i] / options.softcap)
                s[j, i] = options.softcap * t
                cap_slope[j, i] = one - t * t
    if options.slopes.size > 0:
        slope = options.slopes[h]
        for j in range(J):
            for i in range(I):
                distance = np.int32(abs(i0 + i + options.S - options.T - (j0 + j)))
                s[j, i] -= slope * s.dtype.type(distance)
    if options.bias.size > 0:
        for j in range(J):
            for i in range(I):
                s[j, i] += options.bias[h, j0 + j - (i0 + i) + options.T - 1]


@inlined
def add_bias_gradient(ds, i0, j0, T, dbias_h):
    """The bias of a distance collects the sum of ds along its diagonal."""
    for j in range(ds.shape[0]):
        for i in range(ds.shape[1]):
            dbias_h[j0 + j - (i0 + i) + T - 1] += ds[j, i]


@inlined
def multiply(x, y):
    """x *= y."""
    for j in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[j, i] *= y[j, i]
