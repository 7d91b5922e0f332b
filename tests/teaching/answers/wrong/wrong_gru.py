"""Wrong answers: GRU, with the reset gate after and before the product."""

import numpy as np
from scipy.special import expit

from answers.corpus import wrong


def gates(x, h, Wx, Wh, b):
    """r, z, the candidate's input a and the projected state p."""
    n = h.shape[1]
    a, p = x @ Wx + b, h @ Wh
    return expit(a[:, :n] + p[:, :n]), expit(a[:, n:2*n] + p[:, n:2*n]), a[:, 2*n:], p[:, 2*n:]


def finish(dr, dz, dn, dp, direct, x, h, Wx, Wh):
    """Gradients from those of the three blocks' inputs, dp that of the projected state."""
    da, db = np.hstack([dr, dz, dn]), np.hstack([dr, dz, dp])
    return da @ Wx.T, direct + db @ Wh.T, x.T @ da, h.T @ db, da.sum(0)


@wrong("gru_cell_backward", "the direct path z of the state is missing")
def gru_b_direct(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z) * (1 - n**2)
    dr, dz = dn * p * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dr, dz, dn, dn * r, 0, x, h, Wx, Wh)


@wrong("gru_cell_backward", "z and 1 - z are exchanged")
def gru_b_exchanged(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * z * (1 - n**2)
    dr, dz = dn * p * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dr, dz, dn, dn * r, dout * (1 - z), x, h, Wx, Wh)


@wrong("gru_cell_backward", "the sign of the update gate's gradient: n - h")
def gru_b_sign(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z) * (1 - n**2)
    dr, dz = dn * p * r * (1 - r), dout * (n - h) * z * (1 - z)
    return finish(dr, dz, dn, dn * r, dout * z, x, h, Wx, Wh)


@wrong("gru_cell_backward", "the reset gate is forgotten in the candidate's path to the state")
def gru_b_reset(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z) * (1 - n**2)
    dr, dz = dn * p * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dr, dz, dn, dn, dout * z, x, h, Wx, Wh)


@wrong("gru_cell_backward", "the reset gate's gradient has the state, not the projected state")
def gru_b_projected(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z) * (1 - n**2)
    dr, dz = dn * h * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dr, dz, dn, dn * r, dout * z, x, h, Wx, Wh)


@wrong("gru_cell_backward", "the candidate's tanh is not derived")
def gru_b_tanh(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z)
    dr, dz = dn * p * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dr, dz, dn, dn * r, dout * z, x, h, Wx, Wh)


@wrong("gru_cell_backward", "the blocks of reset and update gate are exchanged")
def gru_b_blocks(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z) * (1 - n**2)
    dr, dz = dn * p * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dz, dr, dn, dn * r, dout * z, x, h, Wx, Wh)


@wrong("gru_cell_backward", "the reset gate gets no gradient")
def gru_b_no_reset(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z) * (1 - n**2)
    dz = dout * (h - n) * z * (1 - z)
    return finish(np.zeros_like(r), dz, dn, dn * r, dout * z, x, h, Wx, Wh)


@wrong("gru_cell_backward", "two mistakes: the direct path is missing, tanh is not derived")
def gru_b_two(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z)
    dr, dz = dn * p * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dr, dz, dn, dn * r, 0, x, h, Wx, Wh)


@wrong("gru_cell", "z and 1 - z are exchanged: (1 - z) * h + z * n")
def gru_exchanged(x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    return (1 - z) * h + z * np.tanh(a + r * p)


@wrong("gru_cell", "the blocks of reset and update gate are exchanged")
def gru_blocks(x, h, Wx, Wh, b):
    z, r, a, p = gates(x, h, Wx, Wh, b)
    return z * h + (1 - z) * np.tanh(a + r * p)


def before(x, h, Wx, Wh, b):
    """r, z and the candidate n, where the reset gate multiplies the state before the product."""
    r, z, a, _ = gates(x, h, Wx, Wh, b)
    return r, z, np.tanh(a + (r * h) @ Wh[:, 2 * h.shape[1]:])


def finish_before(dr, dz, dn, dh, x, h, r, Wx, Wh):
    w, g = h.shape[1], np.hstack([dr, dz])
    da = np.hstack([g, dn])
    dWh = np.hstack([h.T @ g, (r * h).T @ dn])
    return da @ Wx.T, dh + g @ Wh[:, :2 * w].T, x.T @ da, dWh, da.sum(0)


@wrong("gru_cell_reset_before_backward", "the candidate's path to the state lacks the reset gate")
def grub_b_reset(dout, x, h, Wx, Wh, b):
    r, z, n = before(x, h, Wx, Wh, b)
    dn = dout * (1 - z) * (1 - n**2)
    dq = dn @ Wh[:, 2 * h.shape[1]:].T
    dr, dz = dq * h * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish_before(dr, dz, dn, dout * z + dq, x, h, r, Wx, Wh)


@wrong("gru_cell_reset_before_backward", "the candidate's weight gradient has h, not r * h")
def grub_b_weight(dout, x, h, Wx, Wh, b):
    r, z, n = before(x, h, Wx, Wh, b)
    dn = dout * (1 - z) * (1 - n**2)
    dq = dn @ Wh[:, 2 * h.shape[1]:].T
    dr, dz = dq * h * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish_before(dr, dz, dn, dout * z + dq * r, x, h, np.ones_like(r), Wx, Wh)


@wrong("gru_cell_reset_before_backward", "the candidate's path to the state is missing")
def grub_b_path(dout, x, h, Wx, Wh, b):
    r, z, n = before(x, h, Wx, Wh, b)
    dn = dout * (1 - z) * (1 - n**2)
    dr = (dn @ Wh[:, 2 * h.shape[1]:].T) * h * r * (1 - r)
    dz = dout * (h - n) * z * (1 - z)
    return finish_before(dr, dz, dn, dout * z, x, h, r, Wx, Wh)


@wrong("gru_cell_reset_before_backward", "the gradient of the cell with the reset gate after")
def grub_b_after(dout, x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    n = np.tanh(a + r * p)
    dn = dout * (1 - z) * (1 - n**2)
    dr, dz = dn * p * r * (1 - r), dout * (h - n) * z * (1 - z)
    return finish(dr, dz, dn, dn * r, dout * z, x, h, Wx, Wh)


@wrong("gru_cell_reset_before_backward", "the gates' derivatives lack s (1 - s) in r")
def grub_b_sigmoid(dout, x, h, Wx, Wh, b):
    r, z, n = before(x, h, Wx, Wh, b)
    dn = dout * (1 - z) * (1 - n**2)
    dq = dn @ Wh[:, 2 * h.shape[1]:].T
    dr, dz = dq * h, dout * (h - n) * z * (1 - z)
    return finish_before(dr, dz, dn, dout * z + dq * r, x, h, r, Wx, Wh)


@wrong("gru_cell_reset_before", "the reset gate multiplies after the product")
def grub_after(x, h, Wx, Wh, b):
    r, z, a, p = gates(x, h, Wx, Wh, b)
    return z * h + (1 - z) * np.tanh(a + r * p)
