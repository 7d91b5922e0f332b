"""A GPT on one page, in NumPy alone: the model, its gradients derived by hand, training, sampling.

    python -m numformer.minimal [TEXT]

trains a character-level GPT-2 on a text file (by default Python's own documentation), measures it
on the last tenth, and prints a sample: about a minute on two idle cores. While other programs use
them, set OPENBLAS_NUM_THREADS=1, or threads wait for each other.

A layer is a function that returns its output y and `saved`, what its backward needs. The backward
is the function below it: it takes dy, applies the chain rule, and returns gradients of the inputs.
dx is the gradient of the loss with respect to x, in the shape of x. In a backward, a comment quotes
the forward line that the next lines differentiate. A model's backward visits its layers backwards.

Shapes: B sequences of T characters; vectors of C numbers, the width of the model; H attention heads
of width D = C / H; F outputs of a linear layer, hidden units in the MLP; V characters in the
vocabulary. In formulas, [i = j] is 1 if i = j and 0 otherwise. Scores before a softmax over the
characters are called logits; the loss is in nats, as its logarithm is the natural one.
"""

import sys

import numpy as np

CONTEXT = 64                              # the largest T: how many characters the model can see
LAYERS, HEADS, WIDTH = 2, 4, 128          # number of blocks, H, C
STEPS, BATCH, WARMUP = 1200, 8, 50        # WARMUP: steps in which the learning rate rises
LEARNING_RATE, WEIGHT_DECAY, INITIAL_STD = 3e-3, 0.01, 0.06      # std of initial weights


# ---- Layers -------------------------------------------------------------------------------------

def linear(x, weight, bias):
    """Map every vector from C to F numbers: y = x W + b."""
    return x @ weight + bias, (x, weight)                             # (B, T, F)


def linear_backward(dy, saved):
    x, weight = saved
    C, F = weight.shape
    # y = x @ weight + bias. All B T vectors share weight and bias, so their gradients are sums
    dx = dy @ weight.T                                                # (B, T, C)
    dweight = x.reshape(-1, C).T @ dy.reshape(-1, F)                  # (C, F)
    dbias = dy.sum(axis=(0, 1))                                       # (F,)
    return dx, dweight, dbias


def layer_norm(x, weight, bias):
    """Give every vector mean 0 and variance 1, then scale and shift its coordinates."""
    centred = x - x.mean(axis=-1, keepdims=True)                      # (B, T, C)
    variance = (centred * centred).mean(axis=-1, keepdims=True)       # (B, T, 1)
    r = 1 / np.sqrt(variance + 1e-5)                                  # (B, T, 1)
    x_hat = centred * r                                               # (B, T, C)
    return x_hat * weight + bias, (x_hat, r, weight)


def layer_norm_backward(dy, saved):
    x_hat, r, weight = saved
    # y = x_hat * weight + bias
    dx_hat = dy * weight                                              # (B, T, C)
    dweight = (dy * x_hat).sum(axis=(0, 1))                           # (C,)
    dbias = dy.sum(axis=(0, 1))                                       # (C,)
    # x_hat = centred * r, and r = (mean_i(centred_i^2) + 1e-5)^(-1/2) depends on every centred_j:
    # dr/dcentred_j = -1/2 r^3 * 2 centred_j / C. So
    # dcentred_j = r dx_hat_j + dr/dcentred_j sum_i dx_hat_i centred_i, and with centred = x_hat / r
    #            = r (dx_hat_j - x_hat_j mean_i(dx_hat_i x_hat_i))
    dcentred = r * (dx_hat - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True))
    # centred = x - x.mean(): x_j is in every centred_i, through the mean, with the factor -1 / C
    dx = dcentred - dcentred.mean(axis=-1, keepdims=True)
    return dx, dweight, dbias


def gelu(x):
    """GPT-2's smooth ReLU: y = x (1 + tanh u) / 2, where u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    t = np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x))      # (B, T, F)
    return 0.5 * x * (1 + t), (x, t)


def gelu_backward(dy, saved):
    x, t = saved
    x = np.where(t * t < 1, x, 0)        # where tanh is flat, dt_dx is 0, and x * x may overflow
    # t = tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)), and the derivative of tanh is 1 - tanh^2
    dt_dx = (1 - t * t) * (2 / np.pi) ** 0.5 * (1 + 3 * 0.044715 * x * x)
    # y = 0.5 * x * (1 + t), a product of two functions of x
    return dy * 0.5 * (1 + t + x * dt_dx)                             # (B, T, F)


def softmax(x):
    """Turn scores into probabilities: y_i = exp(x_i) / sum_k exp(x_k). Its backward takes y."""
    # The maximum cancels; it keeps exp from overflowing
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(dy, y):
    # y_i = exp(x_i) / sum_k exp(x_k). The derivative of y_i with respect to x_j is
    # y_i ([i = j] - y_j), so dx_j = sum_i dy_i y_i ([i = j] - y_j) = y_j (dy_j - sum_i dy_i y_i)
    return y * (dy - (dy * y).sum(axis=-1, keepdims=True))


def attention(qkv):
    """Causal attention in H heads, softmax(q k^T / sqrt(D)) v: a mean of the values v of a position
    and all earlier ones, weighted by how well their keys k match its query q. Each head has its own
    weights, and so can read from another position."""
    B, T, _ = qkv.shape                                               # (B, T, 3C)
    # reshape cuts each vector into H heads; swapaxes puts H before T, so that @ works head by head
    q, k, v = [part.reshape(B, T, HEADS, -1).swapaxes(1, 2)           # (B, H, T, D) each
               for part in np.split(qkv, 3, axis=-1)]
    causal = np.tri(T, dtype=bool)                                  # (T, T): causal[t, s] is s <= t
    # q . k is a sum of D products of variance 1, so its variance is D; divided by sqrt(D), it is 1
    scores = q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5                # (B, H, T, T)
    weights = softmax(np.where(causal, scores, -np.inf))              # exp(-inf) is 0
    o = weights @ v                                                   # (B, H, T, D)
    return o.swapaxes(1, 2).reshape(B, T, -1), (q, k, v, weights)     # (B, T, C)


def attention_backward(dy, saved):
    q, k, v, weights = saved
    B, H, T, D = q.shape
    # y = o.swapaxes(1, 2).reshape(B, T, -1), where o = weights @ v
    do = dy.reshape(B, T, H, D).swapaxes(1, 2)                        # (B, H, T, D)
    dweights = do @ v.swapaxes(2, 3)                                  # (B, H, T, T)
    dv = weights.swapaxes(2, 3) @ do                                  # (B, H, T, D)
    # weights = softmax(where(causal, scores, -inf)): softmax_backward gives 0 where a weight is 0
    dscores = softmax_backward(dweights, weights)                     # (B, H, T, T)
    # scores = q @ k^T / sqrt(D)
    dq = dscores @ k / D ** 0.5                                       # (B, H, T, D)
    dk = dscores.swapaxes(2, 3) @ q / D ** 0.5                        # (B, H, T, D)
    # q, k, v = [part.reshape(B, T, HEADS, -1).swapaxes(1, 2) for part in np.split(qkv, ...)]
    parts = [part.swapaxes(1, 2).reshape(B, T, -1) for part in (dq, dk, dv)]
    return np.concatenate(parts, axis=-1)                             # (B, T, 3C)


def cross_entropy(logits, targets):
    """The mean of -log softmax(logits)[target] over all B T targets: the last layer, so no dy."""
    z = logits - logits.max(axis=-1, keepdims=True)                   # (B, T, V), as in softmax
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))         # (B, T, V)
    one_hot = np.eye(z.shape[-1], dtype=z.dtype)[targets]             # (B, T, V): 1 at the target
    return -(one_hot * log_p).sum() / targets.size, (log_p, one_hot, targets.size)


def cross_entropy_backward(saved):
    log_p, one_hot, n = saved
    # -log_p[target] = log(sum_k exp(z_k)) - z[target], whose derivative with respect to z_j is
    # exp(z_j) / sum_k exp(z_k) - [j = target]. The loss is the mean of n; the maximum in z cancels
    return (np.exp(log_p) - one_hot) / n                              # (B, T, V)


# ---- The model ----------------------------------------------------------------------------------
# p maps a name to a list of parameters: p["qkv.0"] is [weight, bias] of a linear layer of block 0.
# g maps the same names to the gradients. `*p[name]` passes the list as arguments;
# `dx, *g[name] = ...` assigns the first result to dx and the others, as a list, to g[name].

def initial_parameters(rng, V):
    """Random matrices; in layer norms, weights of 1 and biases of 0. All is float32. With the std
    1 / sqrt(C) a matrix would give outputs as large as its inputs; ours is a little smaller."""
    C, F = WIDTH, 4 * WIDTH
    random = lambda *shape: rng.normal(0, INITIAL_STD, shape)
    p = {"embedding": [random(V, C)], "positions": [random(CONTEXT, C)]}
    for i in range(LAYERS):
        p[f"norm1.{i}"] = [np.ones(C), np.zeros(C)]
        p[f"qkv.{i}"] = [random(C, 3 * C), np.zeros(3 * C)]
        p[f"output.{i}"] = [random(C, C), np.zeros(C)]
        p[f"norm2.{i}"] = [np.ones(C), np.zeros(C)]
        p[f"mlp1.{i}"] = [random(C, F), np.zeros(F)]
        p[f"mlp2.{i}"] = [random(F, C), np.zeros(C)]
    p["norm"] = [np.ones(C), np.zeros(C)]
    return {name: [w.astype(np.float32) for w in p[name]] for name in p}


def block(x, p, i):
    """Add to x what attention reads from earlier positions, then what the MLP computes from it.
    Each sum (a residual connection) keeps x, and has a path on which gradients pass unchanged."""
    a, saved_norm1 = layer_norm(x, *p[f"norm1.{i}"])                  # (B, T, C)
    a, saved_qkv = linear(a, *p[f"qkv.{i}"])                          # (B, T, 3C)
    a, saved_attention = attention(a)                                 # (B, T, C)
    a, saved_output = linear(a, *p[f"output.{i}"])
    h = x + a

    m, saved_norm2 = layer_norm(h, *p[f"norm2.{i}"])                  # (B, T, C)
    m, saved_mlp1 = linear(m, *p[f"mlp1.{i}"])                        # (B, T, F)
    m, saved_gelu = gelu(m)
    m, saved_mlp2 = linear(m, *p[f"mlp2.{i}"])                        # (B, T, C)
    return h + m, (saved_norm1, saved_qkv, saved_attention, saved_output,
                   saved_norm2, saved_mlp1, saved_gelu, saved_mlp2)


def block_backward(dy, saved, g, i):
    (saved_norm1, saved_qkv, saved_attention, saved_output,
     saved_norm2, saved_mlp1, saved_gelu, saved_mlp2) = saved
    # y = h + m, m = mlp2(gelu(mlp1(norm2(h)))): h reaches y on two paths, whose gradients add up
    dm, *g[f"mlp2.{i}"] = linear_backward(dy, saved_mlp2)             # (B, T, F)
    dm = gelu_backward(dm, saved_gelu)
    dm, *g[f"mlp1.{i}"] = linear_backward(dm, saved_mlp1)             # (B, T, C)
    dm, *g[f"norm2.{i}"] = layer_norm_backward(dm, saved_norm2)
    dh = dy + dm

    # h = x + a, a = output(attention(qkv(norm1(x))))
    da, *g[f"output.{i}"] = linear_backward(dh, saved_output)         # (B, T, C)
    da = attention_backward(da, saved_attention)                      # (B, T, 3C)
    da, *g[f"qkv.{i}"] = linear_backward(da, saved_qkv)               # (B, T, C)
    da, *g[f"norm1.{i}"] = layer_norm_backward(da, saved_norm1)
    return dh + da


def forward(p, ids):
    """Logits (B, T, V) of the next character at every position of ids (B, T), integers below V."""
    embedding, positions = p["embedding"][0], p["positions"][0]
    x = embedding[ids] + positions[:ids.shape[1]]                     # (B, T, C)
    saved_blocks = [None] * LAYERS
    for i in range(LAYERS):
        x, saved_blocks[i] = block(x, p, i)
    x, saved_norm = layer_norm(x, *p["norm"])
    # A logit is the dot product of x with a character's embedding: no weights of its own, bias 0
    logits, saved_head = linear(x, embedding.T, 0)                    # (B, T, V)
    return logits, (ids, saved_blocks, saved_norm, saved_head)


def backward(dlogits, saved):
    """The gradients of all parameters, under their names in p."""
    ids, saved_blocks, saved_norm, saved_head = saved
    # logits = linear(norm(x), embedding.T, 0)
    g = {}
    dx, dembedding_T, _ = linear_backward(dlogits, saved_head)        # (B, T, C), (C, V); no bias
    dx, *g["norm"] = layer_norm_backward(dx, saved_norm)
    # x = block(x), once for every i
    for i in reversed(range(LAYERS)):
        dx = block_backward(dx, saved_blocks[i], g, i)
    # x = embedding[ids] + positions[:T]. Each use of a row adds to its gradient: the head above,
    # and every occurrence of an id here (np.add.at; dembedding[ids] += dx would count only one)
    dembedding = dembedding_T.T                                       # (V, C)
    np.add.at(dembedding, ids, dx)
    dpositions = np.zeros((CONTEXT, WIDTH), dx.dtype)
    dpositions[:ids.shape[1]] = dx.sum(axis=0)
    return g | {"embedding": [dembedding], "positions": [dpositions]}


# ---- Training and sampling ----------------------------------------------------------------------

def adamw(p, g, mean, square, step, learning_rate, beta1=0.9, beta2=0.99):
    """Move every parameter w, in place, by -learning_rate m_hat / sqrt(v_hat): m and v are running
    means of its gradient and of the gradient's square. The root makes the ratio about -1 to 1 for
    gradients of any size. Weight decay shrinks matrices (and both tables) a little."""
    for name in p:
        for w, dw, m, v in zip(p[name], g[name], mean[name], square[name]):
            m += (1 - beta1) * (dw - m)
            v += (1 - beta2) * (dw * dw - v)
            # m and v begin at 0 and so are too small at first, by a factor of 1 - beta^step
            m_hat, v_hat = m / (1 - beta1 ** step), v / (1 - beta2 ** step)
            if w.ndim == 2:
                w -= learning_rate * WEIGHT_DECAY * w
            w -= learning_rate * m_hat / (np.sqrt(v_hat) + 1e-8)


def train(ids, V, rng):
    p = initial_parameters(rng, V)
    mean, square = [{name: [np.zeros_like(w) for w in p[name]] for name in p} for _ in range(2)]
    steps = min(STEPS, 20 * len(ids) // (BATCH * CONTEXT))            # 20 times the text at most
    for step in range(1, steps + 1):
        starts = rng.integers(len(ids) - CONTEXT, size=(BATCH, 1))    # (B, 1), to be broadcast
        parts = ids[starts + np.arange(CONTEXT + 1)]                  # (B, T + 1), random excerpts
        logits, saved = forward(p, parts[:, :-1])
        loss, saved_loss = cross_entropy(logits, parts[:, 1:])        # predict the next character
        g = backward(cross_entropy_backward(saved_loss), saved)
        scale = min(step / WARMUP, 1 - step / (steps + 1))            # a rise to 1, a fall to 0
        adamw(p, g, mean, square, step, LEARNING_RATE * scale)
        if step % 100 == 0 or step == steps:
            print(f"step {step} of {steps}: loss {loss:.3f}", flush=True)
    return p


def evaluate(p, ids):
    """The mean loss over a text, cut into consecutive blocks of CONTEXT characters."""
    parts = [ids[None, i:i + CONTEXT + 1] for i in range(0, len(ids) - 1, CONTEXT)]    # (1, T + 1)
    losses = [cross_entropy(forward(p, part[:, :-1])[0], part[:, 1:])[0] for part in parts]
    return np.average(losses, weights=[part.size - 1 for part in parts])    # number of targets


def generate(p, ids, n, rng, temperature=0.8):
    """Continue a list of ids by n more, each sampled from softmax(logits / temperature)."""
    for _ in range(n):
        logits, _ = forward(p, np.array([ids[-CONTEXT:]]))            # (1, T, V)
        probabilities = softmax(logits[0, -1].astype(np.float64) / temperature)    # (V,)
        ids = ids + [rng.choice(len(probabilities), p=probabilities)]
    return ids


if __name__ == "__main__":
    if len(sys.argv) > 1:
        text = open(sys.argv[1], encoding="utf-8").read()
    else:
        from pydoc_data.topics import topics
        text = "\n\n".join(topics[name].strip() for name in sorted(topics))
    if len(text) < 2 * CONTEXT:
        sys.exit(f"the text has {len(text)} characters; give one of at least {2 * CONTEXT}")
    characters = sorted(set(text))                                    # V of them
    ids = np.array([characters.index(character) for character in text])
    cut, rng = int(0.9 * len(ids)), np.random.default_rng(0)
    p = train(ids[:cut], len(characters), rng)
    print(f"validation loss {evaluate(p, ids[cut:]):.3f} nats per character")
    print("".join(characters[i] for i in generate(p, [ids[0]], 400, rng)))
