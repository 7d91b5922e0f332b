"""Recurrent cells and causal convolution."""

from itertools import permutations

import numpy as np

from numformer import functional as F
from numformer.specifications.activations import sigmoid
from numformer.specifications.edges import left_out
from numformer.specifications.levels import Level, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import SPECIFICATIONS, specify


# ---- rnn_cell ------------------------------------------------------------------------------------

def rnn_cell(x, state, input_weight, recurrent_weight, bias):
    return np.tanh(x @ input_weight + state @ recurrent_weight + bias)


def rnn_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias):
    a = x @ input_weight + state @ recurrent_weight + bias
    after = np.tanh(a)
    da = dstate * (1 - after ** 2)
    dx = da @ input_weight.T
    dbefore = da @ recurrent_weight.T
    dinput_weight = x.T @ da
    drecurrent_weight = state.T @ da
    dbias = da.sum(axis=0)
    return dx, dbefore, dinput_weight, drecurrent_weight, dbias


def one_step(gates, parts=1, recurrent_bias=False, **options):
    def make(rng):
        B, C, width = sizes(rng, 3)
        arguments = {
            "x": rng.standard_normal((B, C)), "state": rng.standard_normal((B, parts * width)),
            "input_weight": 0.6 * rng.standard_normal((C, gates * width)),
            "recurrent_weight": 0.6 * rng.standard_normal((width, gates * width)),
            "bias": rng.standard_normal(gates * width)}
        return arguments, {**options,
                           **({"recurrent_bias": rng.standard_normal(width)} if recurrent_bias
                              else {})}
    return make


def cell(*arguments):
    """The levels that every cell has."""
    return {"plain": one_step(*arguments), "no bias": left_out(one_step(*arguments), "bias")}


CELL = ("x", "state", "input_weight", "recurrent_weight", "bias")


def linear_gradients(da, x, state, input_weight, recurrent_weight):
    """dx, dstate and the gradients of both weights and the bias, of a = x W + h U + b."""
    return da @ input_weight.T, da @ recurrent_weight.T, x.T @ da, state.T @ da, da.sum(axis=0)


def rnn(mistake):
    """A backward of the plain cell, written out, with one mistake."""
    def gradients(dstate, x, state, input_weight, recurrent_weight, bias):
        a = x @ input_weight + state @ recurrent_weight + bias
        after = np.tanh(a)
        da = dstate * {"no tanh": 1, "a for h": 1 - a * a,
                       "no square": 1 - after}.get(mistake, 1 - after * after)
        dx, dbefore, dinput, drecurrent, dbias = linear_gradients(da, x, state, input_weight,
                                                                  recurrent_weight)
        if mistake == "not transposed":
            dbefore = da @ recurrent_weight
        if mistake == "new state":
            drecurrent = after.T @ da
        if mistake == "passed on":
            dbefore = dbefore + dstate
        return dx, dbefore, dinput, drecurrent, da if mistake == "no sum" else dbias
    return gradients


specify(
    F.rnn_cell, CELL, cell(1),
    mistakes=[(cause, rnn(mistake)) for cause, mistake in [
        ("the derivative of tanh is missing: 1 - h'**2", "no tanh"),
        ("a is used instead of h' = tanh(a): the derivative of tanh is 1 - h'**2", "a for h"),
        ("the square is missing in the derivative of tanh: 1 - h'**2", "no square"),
        ("the recurrent weight is not transposed in dstate", "not transposed"),
        ("drecurrent_weight is computed with the new state, but the weight multiplied the "
         "previous one", "new state"),
        ("dstate is also passed on directly: this cell has no path around the weight", "passed on"),
        ("the sum over the batch is missing in the gradient of the bias", "no sum")]],
    forward_mistakes=[
        ("the bias is added after the tanh, but must be added before it",
         lambda x, state, input_weight, recurrent_weight, bias: np.tanh(
             x @ input_weight + state @ recurrent_weight) + bias)],
    hints=(
        "The new state is a tanh of two linear maps, of the input and of the old state, added.",
        "x (B, C) with input_weight (C, F), state (B, F) with recurrent_weight (F, F); the bias, "
        "if any, is added once, inside the tanh.",
        "a = x @ input_weight + state @ recurrent_weight, plus the bias; the new state is np.tanh "
        "of it."),
    backward_hints=(
        "Back through the tanh once, then through two linear maps that share its gradient: one "
        "gives dx, the other the gradient of the old state.",
        "da = dstate (1 - after^2), where after is the new state. Both weights are used by all B "
        "examples: their gradients sum over B.",
        "dx = da @ input_weight.T, dinput_weight = x.T @ da; the same with state and "
        "recurrent_weight; dbias = da.sum(axis=0)."))


# ---- lstm_cell -----------------------------------------------------------------------------------

def lstm_cell(x, state, input_weight, recurrent_weight, bias):
    h, c = np.split(state, 2, axis=1)
    a_i, a_f, a_o, a_g = np.split(x @ input_weight + h @ recurrent_weight + bias, 4, axis=1)
    i = sigmoid(a_i)
    f = sigmoid(a_f)
    o = sigmoid(a_o)
    g = np.tanh(a_g)
    memory = f * c + i * g
    out = o * np.tanh(memory)
    return np.concatenate([out, memory], axis=1)


def lstm_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias):
    h, c = np.split(state, 2, axis=1)
    a_i, a_f, a_o, a_g = np.split(x @ input_weight + h @ recurrent_weight + bias, 4, axis=1)
    i = sigmoid(a_i)
    f = sigmoid(a_f)
    o = sigmoid(a_o)
    g = np.tanh(a_g)
    memory = f * c + i * g
    t = np.tanh(memory)
    dh, dmemory = np.split(dstate, 2, axis=1)
    do = dh * t
    dmemory = dmemory + dh * o * (1 - t ** 2)
    df = dmemory * c
    di = dmemory * g
    dg = dmemory * i
    dc = dmemory * f
    da_i = di * i * (1 - i)
    da_f = df * f * (1 - f)
    da_o = do * o * (1 - o)
    da_g = dg * (1 - g ** 2)
    da = np.concatenate([da_i, da_f, da_o, da_g], axis=1)
    dx = da @ input_weight.T
    dh_before = da @ recurrent_weight.T
    return (dx, np.concatenate([dh_before, dc], axis=1), x.T @ da, h.T @ da, da.sum(axis=0))


def lstm(mistake):
    """A backward of the LSTM's cell, written out, with one mistake."""
    def gradients(dstate, x, state, input_weight, recurrent_weight, bias):
        width = len(recurrent_weight)
        h, c = state[:, :width], state[:, width:]
        a = np.split(x @ input_weight + h @ recurrent_weight + bias, 4, axis=1)
        (i, f, o), g = (F.sigmoid(part)[0] for part in a[:3]), np.tanh(a[3])
        memory = f * c + i * g
        activated = np.tanh(memory)
        dh, dmemory = dstate[:, :width], dstate[:, width:]
        if mistake == "no memory from above":
            dmemory = 0
        if mistake != "no memory from the output":
            dmemory = dmemory + dh * o * (1 if mistake == "no tanh of the memory" else 1 - np.tanh(
                c if mistake == "slope at the old memory" else memory) ** 2)
        do, df, di, dg = dh * (memory if mistake == "no tanh in do"
                               else activated), dmemory * c, dmemory * g, dmemory * i
        dgates = [d * (1 if mistake == "no sigmoid" else s * (1 - s))
                  for d, s in ((di, i), (df, f), (do, o))]
        dg = dg * (1 if mistake == "no tanh of the candidate" else 1 - g * g)
        da = np.concatenate([*dgates, dg], axis=1)
        dx, dbefore, dinput, drecurrent, dbias = linear_gradients(da, x, h, input_weight,
                                                                  recurrent_weight)
        if mistake == "new state":
            drecurrent = (o * activated).T @ da
        dc = dmemory if mistake == "no forget gate" else dmemory * f
        if mistake == "dc from above alone":
            dc = dstate[:, width:] * f
        return dx, np.concatenate([dbefore, dc], axis=1), dinput, drecurrent, dbias
    return gradients


def in_order(function, blocks, order):
    """A cell and its backward with weights whose blocks are in another order of their letters."""
    places = [blocks.index(letter) for letter in order]

    def turned(x, places):
        parts = np.split(np.asarray(x), len(blocks), axis=-1)
        return np.concatenate([parts[place] for place in places], axis=-1)

    def outputs(x, state, input_weight, recurrent_weight, bias=None, *more, **options):
        wanted = [order.index(letter) for letter in blocks]
        weights = [None if w is None else turned(w, wanted)
                   for w in (input_weight, recurrent_weight, bias)]
        return function(x, state, *weights, *more, **options)

    def gradients(dstate, *arguments, **options):
        _, saved = outputs(*arguments, **options)
        found = SPECIFICATIONS[function.__name__].gradient(dstate, saved)
        return (*found[:2], *(d if d is None else turned(d, places) for d in found[2:5]),
                *found[5:])
    return lambda *arguments, **options: outputs(*arguments, **options)[0], gradients


def other_orders(function, blocks):
    """Mistakes of a cell and of its backward: the blocks of the weights in every other order."""
    found = [(f"the blocks are read as {', '.join(order)}, but their order is {', '.join(blocks)}",
              in_order(function, blocks, "".join(order)))
             for order in permutations(blocks) if "".join(order) != blocks]
    return ([(cause, forward) for cause, (forward, _) in found],
            [(cause, backward) for cause, (_, backward) in found])


LSTM_ORDERS = other_orders(F.lstm_cell, "ifog")
GRU_ORDERS = other_orders(F.gru_cell, "rzn")
RESET_BEFORE_ORDERS = other_orders(F.gru_cell_reset_before, "rzn")

specify(
    F.lstm_cell, CELL, cell(4, 2),
    note=(
        "A state is output and memory concatenated, (B, 2F). The blocks of the weights are input, "
        "forget and output gate, and candidate."),
    mistakes=[(cause, lstm(mistake)) for cause, mistake in [
        ("the gradient of the new memory is ignored: it is the second half of dstate",
         "no memory from above"),
        ("the gradient of the memory through the output is missing: dh' * o * (1 - tanh(c')**2)",
         "no memory from the output"),
        ("the derivative of tanh(c') is missing", "no tanh of the memory"),
        ("the derivative of tanh is taken at the memory before the step, c, but must be taken at "
         "the new one, c'", "slope at the old memory"),
        ("c' is used instead of tanh(c') in the gradient of the output gate", "no tanh in do"),
        ("the forget gate is missing in the gradient of the old memory: dc = dc' * f",
         "no forget gate"),
        ("the derivative of the gates is missing: s * (1 - s)", "no sigmoid"),
        ("the derivative of the candidate is missing: 1 - g**2", "no tanh of the candidate"),
        ("drecurrent_weight is computed with the new output, but the weight multiplied the "
         "previous one", "new state"),
        ("the gradient of the old memory lacks the part that comes through the output: dc' + "
         "dh' * o * (1 - tanh(c')**2), times f", "dc from above alone")]] + LSTM_ORDERS[1],
    forward_mistakes=LSTM_ORDERS[0],
    hints=(
        "state holds h and c. Four blocks of one linear map give three gates and a candidate; c "
        "forgets and adds, h shows a part of c.",
        "a = x W + h U + b is (B, 4 F), in the order i, f, o, g: sigma for the first three, tanh "
        "for the last. state is [h, c], each (B, F).",
        "c' = f c + i g; h' = o tanh(c'); return them side by side, h' first, as state has them."),
    backward_hints=(
        "dstate holds the gradients of h' and c'. c' is read twice: as the next memory, and "
        "through h' = o tanh(c'). Add the second to the first.",
        "dc' += dh' o (1 - tanh(c')^2); do = dh' tanh(c'). Then df = dc' c, di = dc' g, dg = dc' "
        "i, and c gets dc' f. h enters only through a.",
        "da joins ds s (1 - s) for each gate s of i, f, o, then dg (1 - g^2); dh = da U^T, dU = "
        "h^T da, dx = da W^T, dW = x^T da, db sums da over B."))


# ---- gru_cell ------------------------------------------------------------------------------------

def gru_cell(x, state, input_weight, recurrent_weight, bias, recurrent_bias=0.0):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    h_r, h_z, h_n = np.split(state @ recurrent_weight, 3, axis=1)
    r = sigmoid(x_r + h_r)
    z = sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * (h_n + recurrent_bias))
    return z * state + (1 - z) * n


def gru_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias, recurrent_bias=None):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    h_r, h_z, h_n = np.split(state @ recurrent_weight, 3, axis=1)
    if recurrent_bias is not None:
        h_n = h_n + recurrent_bias
    r = sigmoid(x_r + h_r)
    z = sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * h_n)
    dz = dstate * (state - n)
    dn = dstate * (1 - z)
    dbefore = dstate * z
    da_n = dn * (1 - n ** 2)
    dr = da_n * h_n
    dh_n = da_n * r
    da_r = dr * r * (1 - r)
    da_z = dz * z * (1 - z)
    da = np.concatenate([da_r, da_z, da_n], axis=1)
    dp = np.concatenate([da_r, da_z, dh_n], axis=1)
    dx = da @ input_weight.T
    dbefore = dbefore + dp @ recurrent_weight.T
    gradients = dx, dbefore, x.T @ da, state.T @ dp, da.sum(axis=0)
    return gradients if recurrent_bias is None else (*gradients, dh_n.sum(axis=0))


def gru(mistake, reset_after=True):
    """A backward of the GRU's cell, written out, with one mistake."""
    if mistake == "other side":
        reset_after = not reset_after

    def gradients(dstate, x, state, input_weight, recurrent_weight, bias, recurrent_bias=None):
        width, before = len(recurrent_weight), state
        of_gates, of_candidate = recurrent_weight[:, :2 * width], recurrent_weight[:, 2 * width:]
        a = x @ input_weight + bias
        r, z = np.split(F.sigmoid(a[:, :2 * width] + state @ of_gates)[0], 2, axis=1)
        projected = state @ of_candidate + (0 if recurrent_bias is None else recurrent_bias)
        n = np.tanh(a[:, 2 * width:]
                    + (r * projected if reset_after else (r * state) @ of_candidate))
        dn, dz, direct = dstate * (1 - z), dstate * (state - n), dstate * z
        if mistake == "inverted update":
            dn, dz, direct = dstate * z, dstate * (n - state), dstate * (1 - z)
        if mistake == "dz without n":
            dz = dstate * state
        dn = dn * (1 if mistake == "no tanh" else 1 - n * n)
        dproduct = dn @ of_candidate.T
        dr = dn * projected if reset_after else dproduct * state
        if mistake == "no reset":
            dr = 0 * dr
        if mistake == "no direct path":
            direct = 0
        dgates = np.concatenate([d if mistake == "no sigmoid" else d * s * (1 - s)
                                 for d, s in ((dr, r), (dz, z))], axis=1)
        dbefore = direct + dgates @ of_gates.T + ((dn * r) @ of_candidate.T if reset_after
                                                  else dproduct * r)
        dcandidate = state.T @ (dn * r) if reset_after else (r * before).T @ dn
        if mistake == "no reset in the weight":
            dcandidate = state.T @ dn
        da = np.concatenate([dgates, dn], axis=1)
        drecurrent = np.concatenate([state.T @ dgates, dcandidate], axis=1)
        gradients = da @ input_weight.T, dbefore, x.T @ da, drecurrent, da.sum(axis=0)
        return gradients if recurrent_bias is None else (*gradients, (dn * r).sum(axis=0))
    return gradients


def gru_forward(mistake, reset_after=True):
    """The GRU's cell, written out, with one mistake."""
    if mistake == "other side":
        reset_after = not reset_after

    def outputs(x, state, input_weight, recurrent_weight, bias=0.0, recurrent_bias=0.0):
        x_r, x_z, x_n = np.split(x @ input_weight + (0.0 if bias is None else bias), 3, axis=1)
        u_r, u_z, u_n = np.split(recurrent_weight, 3, axis=1)
        r, z = F.sigmoid(x_r + state @ u_r)[0], F.sigmoid(x_z + state @ u_z)[0]
        product = r * (state @ u_n) if reset_after else (r * state) @ u_n
        b = 0.0 if recurrent_bias is None else recurrent_bias
        n = x_n + product + (b if mistake == "bias outside" or not reset_after else r * b)
        n = n if mistake == "no tanh" else np.tanh(n)
        return (1 - z) * state + z * n if mistake == "inverted update" else z * state + (1 - z) * n
    return outputs


IN_GRU = [
    ("the update gate is inverted: z is the fraction of the old state", "inverted update"),
    ("the reset gate is on the wrong side of the product", "other side")]
IN_GRU_FORWARD = [*IN_GRU, ("the candidate has no tanh", "no tanh")]
GRU_MISTAKES = [
    *IN_GRU,
    ("the direct path is missing in dstate: z * dh'", "no direct path"),
    ("n is missing in the gradient of the update gate: dz = dh' * (h - n)", "dz without n"),
    ("the gradient of the reset gate is missing", "no reset"),
    ("the reset gate is missing in the gradient of the candidate's recurrent weight",
     "no reset in the weight"),
    ("the derivative of the gates is missing: s * (1 - s)", "no sigmoid"),
    ("the derivative of the candidate is missing: 1 - n**2", "no tanh")]


specify(
    F.gru_cell, (*CELL, "recurrent_bias"),
    {**cell(3), "a recurrent bias": one_step(3, recurrent_bias=True)},
    note=("The blocks of the weights are reset and update gate, and candidate. The reset gate "
    "multiplies the product of state and weight."),
    cases=[
        Pair("gru cell", [(3, 3), (3, 2), (3, 6), (2, 6), (6,), (2,)]),
        Pair("gru cell without a recurrent bias", [(2, 3), (2, 2), (3, 6), (2, 6), (6,)])],
    mistakes=[*((cause, gru(mistake)) for cause, mistake in GRU_MISTAKES), *GRU_ORDERS[1]],
    forward_mistakes=[
        *((cause, gru_forward(mistake)) for cause, mistake in IN_GRU_FORWARD),
        ("the recurrent bias is outside of the product with the reset gate: r multiplies h U_3 and "
         "the bias", gru_forward("bias outside")),
        *GRU_ORDERS[0]],
    hints=(
        "The reset gate r hides the old state from the proposal n; the update gate z keeps a "
        "fraction of the old state.",
        "x W and h U are (B, 3 F), in the order r, z, n. Add them for r and z; for n, r "
        "multiplies the product with U, recurrent_bias included.",
        "n = tanh(a_3 + r * (h U_3 + b_h)), and h' = z * h + (1 - z) * n: z is the share of the "
        "old state."),
    backward_hints=(
        "h enters four times: as z h, through both gates, and through the proposal. All four add "
        "up.",
        "dn = dh' (1 - z), dz = dh' (h - n). da_3 = dn (1 - n^2), dr = da_3 (h U_3 + b_h), then r "
        "(1 - r) and z (1 - z). The product with U_3 receives r da_3.",
        "With du = [da_1, da_2, r * da_3]: dh = dh' * z + du @ U.T, and U gets h.T @ du, "
        "recurrent_bias the sum of r * da_3; but x, W and b get da = [da_1, da_2, da_3]."))


# ---- gru_cell_reset_before -----------------------------------------------------------------------

def gru_cell_reset_before(x, state, input_weight, recurrent_weight, bias):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    w_r, w_z, w_n = np.split(recurrent_weight, 3, axis=1)
    r = sigmoid(x_r + state @ w_r)
    z = sigmoid(x_z + state @ w_z)
    n = np.tanh(x_n + (r * state) @ w_n)
    return z * state + (1 - z) * n


def gru_cell_reset_before_backward(dstate, x, state, input_weight, recurrent_weight, bias):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    w_r, w_z, w_n = np.split(recurrent_weight, 3, axis=1)
    r = sigmoid(x_r + state @ w_r)
    z = sigmoid(x_z + state @ w_z)
    n = np.tanh(x_n + (r * state) @ w_n)
    dz = dstate * (state - n)
    dn = dstate * (1 - z)
    dbefore = dstate * z
    da_n = dn * (1 - n ** 2)
    dproduct = da_n @ w_n.T
    dr = dproduct * state
    da_r = dr * r * (1 - r)
    da_z = dz * z * (1 - z)
    dbefore = dbefore + dproduct * r + da_r @ w_r.T + da_z @ w_z.T
    da = np.concatenate([da_r, da_z, da_n], axis=1)
    dx = da @ input_weight.T
    drecurrent = np.concatenate([state.T @ da_r, state.T @ da_z, (r * state).T @ da_n], axis=1)
    return dx, dbefore, x.T @ da, drecurrent, da.sum(axis=0)


specify(
    F.gru_cell_reset_before, CELL, cell(3),
    note=("The blocks of the weights are reset and update gate, and candidate. The reset gate "
    "multiplies the state, before the product with the weight."),
    mistakes=[*((cause, gru(mistake, reset_after=False)) for cause, mistake in GRU_MISTAKES),
              *RESET_BEFORE_ORDERS[1]],
    forward_mistakes=[
        *((cause, gru_forward(mistake, reset_after=False)) for cause, mistake in IN_GRU_FORWARD),
        *RESET_BEFORE_ORDERS[0]],
    hints=(
        "As gru_cell, but the reset gate multiplies the old state before the product with the "
        "recurrent weight.",
        "r and z come from a + h U, blocks 1 and 2, by sigma. The proposal multiplies (r * h) "
        "with block 3 of U: this product needs r first.",
        "n = tanh(a_3 + (r * h) @ U_3), and h' = z * h + (1 - z) * n."),
    backward_hints=(
        "h enters four times: as z h, through r, through z, and as r h in the proposal. In the "
        "last, r and h are factors of each other.",
        "dn = dh' (1 - z), dz = dh' (h - n), da_3 = dn (1 - n^2). The gradient of r h is v = da_3 "
        "U_3^T: dr = v h, and h gets v r.",
        "dh = dh' * z + da_12 @ U_12.T + r * v. U_12 gets h^T da_12, but U_3 gets (r * h)^T da_3; "
        "x, W and b see all three blocks of da."))


# ---- causal_convolution --------------------------------------------------------------------------

def causal_convolution(x, weight, bias, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    y = np.zeros((B, T, F))
    for k in range(K):
        back = (K - 1 - k) * dilation
        for t in range(back, T):
            y[:, t] += x[:, t - back] @ weight[k]
    return y + bias


def causal_convolution_backward(dy, x, weight, bias, dilation=1):
    B, T, C = x.shape
    K, _, F = weight.shape
    dx = np.zeros(x.shape)
    dweight = np.zeros(weight.shape)
    for k in range(K):
        back = (K - 1 - k) * dilation
        for t in range(back, T):
            dx[:, t - back] += dy[:, t] @ weight[k].T
            dweight[k] += x[:, t - back].T @ dy[:, t]
    dbias = dy.sum(axis=(0, 1))
    return dx, dweight, dbias


def convolved(**options):
    def make(rng):
        B, T, K, C, width = sizes(rng, 5)
        T, K = max(T, K) + 1, min(T, K)
        x, weight, bias = (rng.standard_normal(shape)
                           for shape in ((B, T, C), (K, C, width), width))
        return {"x": x, "weight": weight, "bias": bias}, options
    return make


def shorter_than_window(rng):
    B, T, K, C, width = sizes(rng, 5)
    T, K = min(T, K), max(T, K) + 1
    x, weight, bias = (rng.standard_normal(shape)
                       for shape in ((B, T, C), (K, C, width), width))
    return {"x": x, "weight": weight, "bias": bias}, {}


SHORT = "The sequence is shorter than the kernel here: T < K."


def convolution(mistake):
    """A backward of causal convolution, written out, with one mistake."""
    def gradients(dy, x, weight, bias, dilation=1):
        if mistake == "no dilation":
            dilation = 1
        K, T = len(weight), x.shape[1]
        dx, dweight = np.zeros_like(x), np.zeros_like(weight)
        for k in range(K):
            back = (k if mistake == "reversed" else K - 1 - k) * dilation
            if mistake == "around":
                dx += np.roll(dy, -back, axis=1) @ weight[k].T
                dweight[k] = np.tensordot(x[:, :T - back], dy[:, back:], axes=((0, 1), (0, 1)))
            elif mistake == "future":
                dx[:, back:] += dy[:, :T - back] @ weight[k].T
                dweight[k] = np.tensordot(x[:, back:], dy[:, :T - back], axes=((0, 1), (0, 1)))
            else:
                if mistake == "not moved back":
                    dx[:, back:] += dy[:, :T - back] @ weight[k].T
                else:
                    left_out = mistake == "first left out" and back > 0
                    dx[:, left_out:T - back] += dy[:, back + left_out:] @ weight[k].T
                dweight[k] = np.tensordot(x[:, :T - back], dy[:, back:], axes=((0, 1), (0, 1)))
        dbias = dy.sum(axis=0 if mistake == "sum over the batch only" else (0, 1))
        return dx, dweight, dbias
    return gradients


specify(
    F.causal_convolution, ("x", "weight", "bias"),
    {"plain": convolved(), "dilation=2": convolved(dilation=2),
     "no bias": left_out(convolved(), "bias"), "T < K": Level(shorter_than_window, SHORT)},
    cases=[
        Pair("causal convolution", [(2, 4, 3), (2, 3, 2), (2,)]),
        Pair("causal convolution, dilated", [(2, 6, 2), (3, 2, 2), (2,)], options=dict(dilation=2)),
        Pair("causal convolution, longer than the sequence",
             [(1, 2, 2), (4, 2, 3), (3,)], options=dict(dilation=3))],
    mistakes=[(cause, convolution(mistake)) for cause, mistake in [
        ("the weights are in reverse order: the last one is for the current position", "reversed"),
        ("the window includes future positions: it must end at the current one", "future"),
        ("dx is shifted the wrong way: a position gets gradients from later positions",
         "not moved back"),
        ("dx has at the last positions what belongs before the first: np.roll goes around, but "
         "what is shifted in must be 0", "around"),
        ("the dilation is missing", "no dilation"),
        ("what the first position gives to later ones is left out of dx: t - back begins at 0",
         "first left out"),
        ("the gradient of the bias is summed over the batch only: it must be summed over all "
         "positions", "sum over the batch only")]],
    hints=(
        "Position t reads itself and K - 1 positions before it, each through a matrix of its own; "
        "before the sequence there are zeros.",
        "The last matrix is for the position itself: weight k reads x_{t - (K - 1 - k) d}. Put (K "
        "- 1) dilation rows of zeros before x.",
        "y is the sum over k of padded[:, k * dilation:k * dilation + T] @ weight[k], (B, T, F), "
        "plus the bias."),
    backward_hints=(
        "Each position is in up to K windows, its own and later ones: it sums over them. Each "
        "matrix is used at all positions of all examples.",
        "dx_s gathers dy_{s + (K - 1 - k) d} W_k^T: later positions, never earlier ones. Work on "
        "the padded array and cut the zeros off at the end.",
        "For each k: dpadded[:, k * dilation:k * dilation + T] += dy @ weight[k].T, and "
        "dweight[k] is that slice of padded, transposed, with dy."))
