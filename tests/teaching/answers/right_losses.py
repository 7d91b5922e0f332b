"""Right answers: losses, similarities and mixtures of experts."""

import math

import numpy as np
from scipy import special
from scipy.spatial import distance

from answers.corpus import right


@right("cross_entropy", "SciPy, plain arguments only")
def cross_entropy_plain(logits, targets):
    log_p = special.log_softmax(logits, axis=-1).reshape(-1, logits.shape[-1])
    return -np.mean(log_p[np.arange(targets.size), targets.ravel()])


@right("cross_entropy", "one-hot, all options")
def cross_entropy_one_hot(logits, targets, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    V = logits.shape[-1]
    x, t = logits.reshape(-1, V), targets.reshape(-1)
    x, t = x[t != ignore_index], t[t != ignore_index]
    wanted = (1 - label_smoothing) * np.eye(V)[t] + label_smoothing / V
    lse = special.logsumexp(x, axis=1)
    return ((lse - (wanted * x).sum(axis=1) + z_loss * lse**2).sum() / len(t)).astype(x.dtype)


@right("cross_entropy_backward", "0-d dloss, loop")
def cross_entropy_loop(dloss, logits, targets):
    dlogits = np.zeros_like(logits)
    for i in np.ndindex(targets.shape):
        e = np.exp(logits[i] - logits[i].max())
        dlogits[i] = e / e.sum()
        dlogits[(*i, targets[i])] -= 1
    return dlogits * np.asarray(dloss, logits.dtype) / targets.size


@right("cross_entropy_backward", "weights of positions")
def cross_entropy_weights(dloss, logits, targets, ignore_index=-100):
    counted = (targets != ignore_index).astype(logits.dtype)
    p = special.softmax(logits, axis=-1)
    hot = np.arange(logits.shape[-1]) == targets[..., None]
    return (p - hot) * (counted * dloss / counted.sum())[..., None]


@right("softmax_cross_entropy", "log-sum-exp minus score")
def softmax_cross_entropy_lse(logits, targets):
    chosen = np.take_along_axis(logits, targets[..., None], -1).squeeze(-1)
    return np.asarray((special.logsumexp(logits, axis=-1) - chosen).mean())


@right("softmax_cross_entropy", "math.fsum, a scalar")
def softmax_cross_entropy_fsum(logits, targets):
    losses = []
    for row, target in zip(logits.reshape(-1, logits.shape[-1]), targets.flat):
        top = max(row)
        losses.append(top + math.log(math.fsum(math.exp(v - top) for v in row)) - row[target])
    return logits.dtype.type(math.fsum(losses) / len(losses))


@right("softmax_cross_entropy_backward", "np.subtract.at")
def softmax_cross_entropy_at(dloss, logits, targets):
    V = logits.shape[-1]
    g = special.softmax(logits.reshape(-1, V), axis=1)
    np.subtract.at(g, (np.arange(len(g)), targets.reshape(-1)), 1)
    return (dloss / len(g) * g).reshape(logits.shape)


@right("uniform_cross_entropy_backward", "through log_softmax")
def uniform_chain(dloss, logits):
    n, V = logits[..., 0].size, logits.shape[-1]
    dlog_p = np.full(logits.shape, -dloss / (n * V), logits.dtype)
    return dlog_p - special.softmax(logits, -1) * dlog_p.sum(-1, keepdims=True)


@right("uniform_cross_entropy", "mean of negative logs")
def uniform_mean(logits):
    return np.mean(-special.log_softmax(logits, axis=-1))


@right("z_loss", "np.logaddexp.reduce")
def z_loss_logaddexp(logits):
    return (np.logaddexp.reduce(logits, axis=1) ** 2).mean()


@right("z_loss_backward", "SciPy softmax")
def z_loss_scipy(dloss, logits):
    lse = special.logsumexp(logits, axis=1, keepdims=True)
    return 2 * dloss * lse * special.softmax(logits, axis=1) / logits.shape[0]


@right("cosine_similarity", "one minus cdist")
def cosine_by_cdist(a, b):
    return np.nan_to_num(1 - distance.cdist(a, b, "cosine")).astype(a.dtype)


@right("cosine_similarity_backward", "loop over pairs")
def cosine_pairs(ds, a, b):
    da, db = np.zeros_like(a), np.zeros_like(b)
    for i, u in enumerate(a):
        for j, v in enumerate(b):
            m, n = np.linalg.norm(u), np.linalg.norm(v)
            if m == 0 or n == 0:
                continue
            s = u @ v / (m * n)
            da[i] += ds[i, j] * (v / (m * n) - s * u / m**2)
            db[j] += ds[i, j] * (u / (m * n) - s * v / n**2)
    return da, db


@right("contrastive_loss", "SciPy log_softmax along both axes")
def contrastive_by_axes(logits):
    return -sum(np.trace(special.log_softmax(logits, axis)) for axis in (0, 1)) / 2 / len(logits)


@right("contrastive_loss_backward", "one_hot of every direction")
def contrastive_directions(dloss, logits):
    right, n = np.eye(len(logits)), len(logits)
    rows, columns = (special.softmax(z, axis=1) - right for z in (logits, logits.T))
    return dloss * (rows / n + (columns / n).T) / 2


@right("triplet_loss", "norms and np.maximum")
def triplet_by_norms(anchors, positives, negatives, margin=1.0):
    near = np.linalg.norm(anchors - positives, axis=1)
    far = np.linalg.norm(anchors - negatives, axis=1)
    return np.maximum(near - far + margin, 0).mean()


@right("triplet_loss_backward", "boolean index")
def triplet_indexed(dloss, a, p, n, margin=1.0):
    near, far = np.linalg.norm(a - p, axis=1), np.linalg.norm(a - n, axis=1)
    active = near + margin > far
    dp, dn = np.zeros_like(a), np.zeros_like(a)
    dp[active] = (p - a)[active] / np.fmax(near[active, None], 1e-30) * dloss / len(a)
    dn[active] = (a - n)[active] / np.fmax(far[active, None], 1e-30) * dloss / len(a)
    return -dp - dn, dp, dn


@right("top_k_gates_backward", "Jacobian of each token")
def top_k_gates_jacobian(dweights, logits, chosen):
    dlogits = np.zeros_like(logits)
    for n, experts in enumerate(chosen):
        p = special.softmax(logits[n, experts])
        dlogits[n, experts] += (np.diag(p) - np.outer(p, p)) @ dweights[n]
    return dlogits


@right("top_k_gates_over_all_backward", "one-hot einsum")
def top_k_gates_over_all_einsum(dweights, logits, chosen):
    hot = np.eye(logits.shape[1], dtype=logits.dtype)[chosen]
    p = special.softmax(logits, axis=1)
    dp = np.einsum("nke,nk->ne", hot, dweights)
    return np.einsum("ne,ne->ne", p, dp) - p * np.einsum("ne,ne->n", p, dp)[:, None]


@right("load_balance_loss_backward", "np.unique counts")
def load_balance_unique(dloss, logits, chosen):
    N, E = logits.shape
    f = np.zeros(E, logits.dtype)
    experts, counts = np.unique(chosen, return_counts=True)
    f[experts] = counts / chosen.size
    p = special.softmax(logits, axis=1)
    return E * dloss / N * p * (f - p @ f[:, None])


@right("combine_experts_backward", "loop over slots")
def combine_loop(dy, outputs, weights, slots):
    k = weights.shape[1]
    doutputs, dweights = np.empty_like(outputs), np.zeros_like(weights)
    for m, slot in enumerate(slots):
        token, choice = divmod(slot, k)
        doutputs[m] = weights[token, choice] * dy[token]
        dweights[token, choice] = outputs[m].dot(dy[token])
    return doutputs, dweights


@right("dispatch_to_experts_backward", "np.add.at")
def dispatch_add_at(dy, x, slots, k):
    dx = np.zeros(x.shape, x.dtype)
    np.add.at(dx, slots // k, dy)
    return dx
