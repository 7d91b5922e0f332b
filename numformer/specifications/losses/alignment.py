"""Losses of answers: log-probabilities of tokens, preferences, policies and their distance."""

import numpy as np

from numformer import functional as F
from numformer.specifications.edges import SUBTRACT
from numformer.specifications.levels import Level, sizes
from numformer.specifications.specification import changed, specify


# ---- token_log_probs -----------------------------------------------------------------------------

def token_log_probs(logits, tokens, temperature=1.0):
    p = np.exp(logits / temperature)
    p = p / p.sum(axis=-1, keepdims=True)
    counts = tokens != F.IGNORE_INDEX
    chosen = np.take_along_axis(p, np.where(counts, tokens, 0)[..., None], axis=-1)[..., 0]
    return np.where(counts, np.log(chosen), 0)


def token_log_probs_backward(dlog_probs, logits, tokens, temperature=1.0):
    p = np.exp(logits / temperature)
    p = p / p.sum(axis=-1, keepdims=True)
    counts = tokens != F.IGNORE_INDEX
    one_hot = np.eye(logits.shape[-1])[np.where(counts, tokens, 0)]
    return (dlog_probs * counts)[..., None] * (one_hot - p) / temperature


def answers(ignored=False, **options):
    """Logits and tokens, of which some may be ignored, but not the first."""
    def make(rng):
        B, T, V = sizes(rng, 3)
        tokens = rng.integers(0, V, (B, T))
        if ignored:
            tokens.ravel()[1:][rng.random(B * T - 1) < 0.4] = F.IGNORE_INDEX
        return {"logits": 2 * rng.standard_normal((B, T, V)), "tokens": tokens}, options
    return make


def of_tokens(one=1.0, p_of=1.0, scale=lambda T: T, counted=True, soft=True):
    """A backward of the log-probabilities with another factor or count."""
    def gradient(dlog_probs, logits, tokens, temperature=1.0):
        softened = logits / (temperature if soft else 1.0)
        p = np.exp(softened - softened.max(axis=-1, keepdims=True))
        p = p / p.sum(axis=-1, keepdims=True)
        counts = tokens != F.IGNORE_INDEX
        one_hot = np.eye(logits.shape[-1])[np.where(counts, tokens, 0)]
        if counted:
            dlog_probs = dlog_probs * counts
        return dlog_probs[..., None] * (one * one_hot - p_of * p) / scale(temperature)
    return gradient


def not_softened(logits, tokens, temperature=1.0):
    """The temperature divides what comes out."""
    return F.token_log_probs(logits, tokens)[0] / temperature


def shifted(dlog_probs, logits, tokens, temperature=1.0):
    moved = np.roll(tokens, 1, axis=-1)
    return of_tokens()(dlog_probs, logits, moved, temperature)


specify(
    F.token_log_probs, ("logits",),
    {"plain": answers(), "ignored tokens": answers(True),
     "temperature=2": answers(temperature=2.0)},
    mistakes=[
        ("the sign is wrong: this is the gradient of a cross-entropy, p - 1 at the token, but a "
         "log-probability rises with the logit of its token", of_tokens(-1.0, -1.0)),
        ("the prediction is not subtracted: the log-sum-exp depends on all logits",
         of_tokens(p_of=0.0)),
        ("the one at the token is missing", of_tokens(one=0.0)),
        ("the tokens are shifted by one position: log_probs[t] is of tokens[t]", shifted),
        ("the factor 1 / T is missing: the logits are divided by the temperature",
         of_tokens(scale=lambda T: 1.0)),
        ("the prediction is not softened: p is the softmax of logits / T", of_tokens(soft=False)),
        ("ignored tokens have a gradient, but their log-probability is 0, a constant",
         of_tokens(counted=False))],
    forward_mistakes=[
        ("the temperature divides the log-probabilities, but must divide the logits before the "
         "softmax", not_softened),
        ("the sign is wrong: a log-probability is at most 0; its negative is the cross-entropy",
         lambda *arguments, **options: -F.token_log_probs(*arguments, **options)[0])],
    note="Tokens of -100 do not count: their log-probability is 0, and so is the gradient of their "
         "logits.",
    last_axes={"logits": 1, "tokens": 0},
    hints=(
        "The log-softmax of the last axis, of which one entry is taken at each position: that of "
        "the given token.",
        "np.take_along_axis(log_p, tokens[..., None], axis=-1) has shape (..., 1). Compute "
        f"log-softmax directly, without the logarithm of a softmax: {SUBTRACT}.",
        "With counts = tokens != -100, take token 0 where nothing counts, and np.where(counts, "
        "taken, 0) at the end{temperature|; the logits are divided by T before the softmax}."),
    backward_hints=(
        "log p_y = z_y - log sum_k exp(z_k): a one at the token, minus the derivative of the "
        "log-sum-exp, which is the softmax.",
        "Each position has a dlog_probs of its own, (...), to be multiplied by a vector (..., V): "
        "dlog_probs[..., None]. Ignored positions get 0.",
        "dlogits = dlog_probs[..., None] * (one_hot - p), where p is (..., V) "
        "and sums to 1{temperature|; then divide by T}."))


# ---- dpo_loss ------------------------------------------------------------------------------------

def dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta=0.1, label_smoothing=0.0,
             likelihood=0.0):
    h = beta * (chosen - reference_chosen - rejected + reference_rejected)
    p = 1 / (1 + np.exp(-h))
    losses = -(1 - label_smoothing) * np.log(p) - label_smoothing * np.log(1 - p)
    return (losses - likelihood * chosen).mean()


def dpo_loss_backward(dloss, chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                      label_smoothing=0.0, likelihood=0.0):
    h = beta * (chosen - reference_chosen - rejected + reference_rejected)
    p = 1 / (1 + np.exp(-h))
    dh = dloss * (p - 1 + label_smoothing) / len(h)
    return beta * dh - dloss * likelihood / len(h), -beta * dh


def preferences(**options):
    """Log-probabilities of pairs of answers: negative, and near those of the reference."""
    def make(rng):
        N, = sizes(rng, 1)
        reference = -5 - 3 * rng.random((2, N))
        chosen, rejected = reference + rng.standard_normal((2, N))
        return {"chosen": chosen, "rejected": rejected, "reference_chosen": reference[0],
                "reference_rejected": reference[1]}, options
    return make


def of_preference(push=lambda p, e: p - 1 + e, signs=(1, -1), of_beta=lambda beta: beta,
                  reference=1.0, mean=True, chosen_term=-1.0, both_terms=False):
    """A backward of the DPO loss, with another factor, sign, reference or mean."""
    def gradients(dloss, chosen, rejected, reference_chosen, reference_rejected, beta=0.1,
                  label_smoothing=0.0, likelihood=0.0):
        h = beta * (chosen - rejected - reference * (reference_chosen - reference_rejected))
        p = F.sigmoid(h)[0]
        N = len(h) if mean else 1
        dh = dloss * of_beta(beta) * push(p, label_smoothing) / N
        term = chosen_term * dloss * likelihood / N
        return signs[0] * dh + term, signs[1] * dh + (term if both_terms else 0)
    return gradients


specify(
    F.dpo_loss, ("chosen", "rejected"),
    {"plain": preferences(), "beta=0.5": preferences(beta=0.5),
     "label_smoothing=0.1": preferences(label_smoothing=0.1),
     "likelihood=0.3": preferences(likelihood=0.3)},
    mistakes=[
        ("sigmoid(h) stands where sigmoid(-h) must: pairs in the wrong order need the largest "
         "push", of_preference(lambda p, e: e - p)),
        ("the rejected answer has the sign of the chosen one, but enters h with a minus",
         of_preference(signs=(1, 1))),
        ("the rejected answer has no gradient", of_preference(signs=(1, 0))),
        ("the reference is left out of h", of_preference(reference=0.0)),
        ("the reference has the wrong sign in h: it is subtracted from the policy",
         of_preference(reference=-1.0)),
        ("the factor beta is missing: h is beta times the difference of the log-ratios",
         of_preference(of_beta=lambda beta: 1.0)),
        ("the factor beta comes twice", of_preference(of_beta=lambda beta: beta * beta)),
        ("the mean over the pairs is missing", of_preference(mean=False)),
        ("the label smoothing is left out: with probability epsilon the other answer is right",
         of_preference(lambda p, e: p - 1)),
        ("the likelihood term is left out: -lambda of each chosen answer",
         of_preference(chosen_term=0.0)),
        ("the likelihood term has the wrong sign: the loss falls as the chosen answer becomes more "
         "likely", of_preference(chosen_term=1.0)),
        ("the likelihood term is that of the chosen answer alone", of_preference(both_terms=True))],
    hints=(
        "Each answer has a log-ratio to the reference; h is beta times that of the chosen answer "
        "minus that of the rejected one. The loss is -log sigmoid(h), averaged over pairs.",
        "-log sigmoid(h) is log(1 + exp(-h)): for large -h it is nearly -h, but exp overflows. "
        "Write it as max(-h, 0) + log1p(exp(-|h|)).",
        "h = beta * ((chosen - reference_chosen) - (rejected - reference_rejected)), and the mean "
        "of log(1 + exp(-h)){label_smoothing|, with epsilon of log(1 + exp(h))}"
        "{likelihood| minus lambda chosen}."),
    backward_hints=(
        "Through h alone: the derivative of -log sigmoid(h), times beta for the chosen answer and "
        "-beta for the rejected one.",
        "The derivative of log(1 + exp(-h)) is -sigmoid(-h), which is sigmoid(h) - 1. The mean "
        "gives 1 / N; the reference is constant.",
        "dh = dloss / N * (sigmoid(h) - 1{label_smoothing| + epsilon}); dchosen = beta * dh"
        "{likelihood| - lambda dloss / N}, drejected = -beta * dh."))


# ---- kl_estimate ---------------------------------------------------------------------------------

def kl_estimate(log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    d = reference_log_probs - log_probs
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d ** 2 / 2
    k = np.exp(d) - 1 - d
    return k * np.exp(log_probs - old_log_probs) if estimator == "k3 corrected" else k


def sampled_tokens(**options):
    def make(rng):
        N, T = sizes(rng, 2)
        old = -0.3 - rng.random((N, T))
        policy, reference = -abs(old + 0.4 * rng.standard_normal((2, N, T)))
        return {"log_probs": policy, "reference_log_probs": reference,
                "old_log_probs": old}, options
    return make


def of_distance(slope):
    """A backward that has the slope of k3 replaced: a function of d."""
    def gradient(dk, log_probs, reference_log_probs, old_log_probs, estimator="k3"):
        d = reference_log_probs - log_probs
        return dk * slope(d, np.exp(log_probs - old_log_probs), estimator)
    return gradient


SLOPES = {"k1": lambda d, r: np.ones_like(d), "k2": lambda d, r: -d,
          "k3": lambda d, r: 1 - np.exp(d), "k3 corrected": lambda d, r: -r * d}

specify(
    F.kl_estimate, ("log_probs",),
    {"k1": Level(sampled_tokens(estimator="k1")), "k3": sampled_tokens(),
     "k2": sampled_tokens(estimator="k2"),
     "k3 corrected": sampled_tokens(estimator="k3 corrected")},
    mistakes=[
        ("the sign is wrong: d = reference - policy falls as the policy rises",
         of_distance(lambda d, r, k: -SLOPES[k](d, r))),
        ("d has the wrong sign: it is the reference minus the policy",
         of_distance(lambda d, r, k: SLOPES[k](-d if k.startswith("k3") else d, r))),
        ("this is the gradient of k1, whatever the estimator: 1 for each token",
         of_distance(lambda d, r, k: np.ones_like(d))),
        ("the -d of k3 has no gradient here: the derivative of e^d - d - 1 is e^d - 1, times -1",
         of_distance(lambda d, r, k: -np.exp(d) if k == "k3" else SLOPES[k](d, r))),
        ("the factor r of the corrected estimator is taken to be constant, but it is there for "
         "its gradient", of_distance(
             lambda d, r, k: r * (1 - np.exp(d)) if k == "k3 corrected" else SLOPES[k](d, r)))],
    last_axes={"log_probs": 0, "reference_log_probs": 0, "old_log_probs": 0},
    hints=(
        "All estimators are functions of d = reference - policy, the log-ratio at each token.",
        "k1 is -d, k2 half the square of d, and k3 is e^d - d - 1; the corrected one is k3 times "
        "the ratio exp(policy - old).",
        "d = reference_log_probs - log_probs; np.expm1(d) - d is k3, also for small d."),
    backward_hints=(
        "Entry by entry, through d, whose derivative with respect to the policy is -1; the "
        "corrected estimator has a second path, through the ratio.",
        "k1 has the slope 1, k2 -d, k3 1 - e^d. The ratio r is its own derivative: of r k3 that is "
        "r k3 + r (1 - e^d).",
        "In the corrected estimator e^d and 1 cancel: its slope is -r d. Multiply by dk."))


# ---- policy_loss ---------------------------------------------------------------------------------

def policy_loss(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3", normalization="token",
                length=None):
    weights = token_weights(counts, normalization, length)
    A = advantages[:, None]
    r = np.exp(np.where(counts, log_probs - old_log_probs, 0))
    terms = -np.minimum(r * A, np.clip(r, 1 - clip_low, 1 + clip_high) * A)
    if beta:
        terms = terms + beta * kl_estimate(log_probs, reference_log_probs, old_log_probs, estimator)
    return (weights * np.where(counts, terms, 0)).sum()


def token_weights(counts, normalization="token", length=None):
    lengths = counts.sum(axis=1, keepdims=True)
    answers = (lengths > 0).sum()
    if normalization == "token":
        return counts / counts.sum()
    return counts / (answers * (np.maximum(lengths, 1) if normalization == "sequence" else length))


def rollouts(reference=True, one_empty=False, **options):
    """Answers of several lengths; ratios on both sides of the clip, advantages of both signs."""
    def make(rng):
        N, T = sizes(rng, 2)
        counts = np.arange(T) < rng.integers(1, T + 1, (N, 1))
        if one_empty and N > 1:
            counts[rng.integers(N)] = False
        old = -0.2 - rng.random((N, T))
        policy, reference_log_probs = -abs(old + 0.4 * rng.standard_normal((2, N, T)))
        found = {"log_probs": policy, "old_log_probs": old,
                 "advantages": rng.choice([-1, 1], N) * rng.uniform(0.5, 1.5, N), "counts": counts,
                 "reference_log_probs": reference_log_probs}
        if not reference:
            del found["reference_log_probs"]
        return found, options
    return make


def of_policy(moves=None, of_ratio=lambda r: r, sign=-1.0, weight=None, kl=1.0, of_kl=None):
    """A backward of the policy loss: which tokens move, the ratio, weights, the penalty."""
    def gradient(dloss, log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                 clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3", normalization="token",
                 length=None):
        weights = (weight or token_weights)(counts, normalization, length)
        A = advantages[:, None]
        r = np.exp(np.where(counts, log_probs - old_log_probs, 0))
        low, high = 1 - clip_low, 1 + clip_high
        moving = (moves or right_moves)(r, A, low, high)
        d = sign * np.where(moving, of_ratio(r) * A, 0)
        if beta:
            distance = np.where(counts, reference_log_probs - log_probs, 0)
            d = d + kl * beta * (of_kl or SLOPES[estimator])(distance, r)
        return dloss * weights * d
    return gradient


def with_objective(objective):
    """The policy loss with another choice between r A and the clipped ratio times A."""
    def loss(log_probs, old_log_probs, advantages, counts, reference_log_probs=None, clip_low=0.2,
             clip_high=0.2, beta=0.0, estimator="k3", normalization="token", length=None):
        r, A = np.exp(np.where(counts, log_probs - old_log_probs, 0)), advantages[:, None]
        right = np.minimum(r * A, np.clip(r, 1 - clip_low, 1 + clip_high) * A)
        other = objective(r * A, np.clip(r, 1 - clip_low, 1 + clip_high) * A)
        exact = F.policy_loss(log_probs, old_log_probs, advantages, counts, reference_log_probs,
                              clip_low, clip_high, beta, estimator, normalization, length)[0]
        weights = token_weights(counts, normalization, length)
        return exact + (weights * np.where(counts, right - other, 0)).sum()
    return loss


def right_moves(r, A, low, high):
    return np.where(A > 0, r <= high, r >= low)


def without_padding(counts, normalization, length):
    """Weights by the padded length."""
    weights = token_weights(counts, normalization, length)
    padded = counts / counts.size
    return padded if normalization != "constant" else weights


MAXIMUM = ("this is the maximum of the two objectives, but must be the minimum: for A > 0 the clip "
           "acts above, for A < 0 below")
WITHOUT_TOKENS = ("An answer has no tokens that count here: it has no loss, no gradient, and is "
                  "not among the N answers.")

specify(
    F.policy_loss, ("log_probs",),
    {"plain": rollouts(reference=False), "a reference": rollouts(),
     "clip_high=0.5": rollouts(clip_high=0.5), "clip_low=0.05": rollouts(clip_low=0.05),
     'normalization="sequence"': rollouts(normalization="sequence"),
     'normalization="constant"': rollouts(normalization="constant", length=8.0),
     **{f'normalization="{kind}", an answer without tokens': Level(
         rollouts(one_empty=True, normalization=kind, **length), WITHOUT_TOKENS, instances=2)
         for kind, length in (("token", {}), ("sequence", {}), ("constant", {"length": 8.0}))},
     "beta=0.3": rollouts(beta=0.3), 'beta=0.3, estimator="k1"': rollouts(beta=0.3, estimator="k1"),
     'beta=0.3, estimator="k2"': rollouts(beta=0.3, estimator="k2"),
     'beta=0.3, estimator="k3 corrected"': rollouts(beta=0.3, estimator="k3 corrected")},
    mistakes=[
        ("the sign is wrong: the loss falls as tokens of good answers become more likely",
         of_policy(sign=1.0)),
        ("clipped tokens have a gradient: where the clip is the minimum, the loss is constant",
         of_policy(lambda r, A, low, high: np.full(r.shape, True))),
        ("the clip acts on both sides, whatever the sign of A: for A > 0 only above 1 + clip_high, "
         "for A < 0 only below 1 - clip_low",
         of_policy(lambda r, A, low, high: (r >= low) & (r <= high))),
        (MAXIMUM, of_policy(lambda r, A, low, high: np.where(A > 0, r >= low, r <= high))),
        ("the ratio is missing in the gradient: the derivative of r is r itself",
         of_policy(of_ratio=lambda r: 1.0 + 0 * r)),
        ("the mean is over all positions, with padding, but must be over the tokens that count",
         of_policy(weight=without_padding)),
        ("the sum of tokens is not divided by anything",
         of_policy(weight=lambda counts, *_: 1.0 * counts)),
        ("positions that do not count have a gradient", of_policy(
            weight=lambda counts, *more: token_weights(counts, *more).max() + 0 * counts)),
        ("the penalty is left out", of_policy(kl=0.0)),
        ("the penalty has the wrong sign", of_policy(kl=-1.0))],
    forward_mistakes=[
        ("the clipped ratio is always used: take the smaller of r * A and the clipped ratio times "
         "A", with_objective(lambda plain, clipped: clipped)),
        ("the ratio is never clipped: take the smaller of r * A and the clipped ratio times A",
         with_objective(lambda plain, clipped: plain)),
        (MAXIMUM, with_objective(np.maximum)),
        ("the sign is wrong: the loss is minus the objective",
         with_objective(lambda plain, clipped: -np.minimum(plain, clipped)))],
    hints=(
        "Per token: the ratio of new and old probability times the advantage of its answer, "
        "against the same with the ratio clipped. The smaller of the two is the objective, and "
        "the loss is its negative.",
        "r = exp(log_probs - old_log_probs) is (N, T), the advantages (N,) need a second axis: "
        "advantages[:, None]. Sum over the tokens that count, and divide by their number.",
        "np.minimum(r * A, np.clip(r, 1 - clip_low, 1 + clip_high) * A), minus, in the mean over "
        "counts{beta|, plus beta times the estimate of the KL divergence at each token}."),
    backward_hints=(
        "The derivative of r = exp(l - old) is r. Of a minimum, only the smaller term has a "
        "gradient, and a clipped ratio has none.",
        "For A > 0, r A is the smaller one as long as r <= 1 + clip_high; for A < 0, as long as r "
        ">= 1 - clip_low. Elsewhere the gradient is 0.",
        "dlog_probs = -dloss * w * where(moves, r * A, 0), with the weight w of each token, 0 "
        "where none counts{beta|; plus dloss w beta times the slope of the estimate}."))


# ---- low_rank_linear -----------------------------------------------------------------------------

def low_rank_linear(x, weight, bias, down, up, alpha=1.0, rank_stabilized=False):
    rank = down.shape[1]
    return x @ (weight + alpha / (rank ** 0.5 if rank_stabilized else rank) * down @ up) + bias


def adapted(**options):
    def make(rng):
        B, T, C, F, R = sizes(rng, 5)
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((C, F)),
                "bias": rng.standard_normal(F), "down": rng.standard_normal((C, R)),
                "up": rng.standard_normal((R, F))}, options
    return make


def adapted_otherwise(**names):
    """A backward of the low-rank map, of which some gradients are changed."""
    def gradients(dy, x, weight, bias, down, up, alpha=1.0, rank_stabilized=False):
        _, saved = F.low_rank_linear(x, weight, bias, down, up, alpha, rank_stabilized)
        right, s = F.low_rank_linear_backward(dy, saved), saved[-1]
        found = dict(zip(("x", "weight", "bias", "down", "up"), right))
        return tuple(names[name](gradient, s, dy, weight) if name in names else gradient
                     for name, gradient in found.items())
    return gradients


specify(
    F.low_rank_linear, ("x", "weight", "bias", "down", "up"),
    {"plain": adapted(), "alpha=8": adapted(alpha=8.0),
     "rank_stabilized=True": adapted(rank_stabilized=True)},
    mistakes=[
        ("dx is without the path through the adapter: h = x A depends on x, too",
         adapted_otherwise(x=lambda dx, s, dy, weight: dy @ weight.T)),
        ("dx is without the path through W",
         adapted_otherwise(x=lambda dx, s, dy, weight: dx - dy @ weight.T)),
        ("the scale s is missing in the gradient of A",
         adapted_otherwise(down=lambda d, s, *_: d / s)),
        ("the scale s is missing in the gradient of B",
         adapted_otherwise(up=lambda d, s, *_: d / s)),
        ("the scale s comes twice in the gradient of A",
         adapted_otherwise(down=lambda d, s, *_: d * s)),
        ("the scale s comes twice in the gradient of B",
         adapted_otherwise(up=lambda d, s, *_: d * s)),
        ("the scale s is in the gradient of W, but only the adapter is scaled",
         adapted_otherwise(weight=lambda d, s, *_: d * s)),
        ("the gradients of A and B are transposed", changed(
            F.low_rank_linear, ddown=lambda d, *_: d.T, dup=lambda d, *_: d.T))],
    last_axes={"x": 1},
    hints=(
        "The linear map as it is, plus a second path: x through the narrow matrix down, (C, R), "
        "and back through up, (R, F), times a scale.",
        "The scale is alpha / R, with R = down.shape[1]{rank_stabilized|, or alpha / sqrt(R) if it "
        "is rank_stabilized}. Multiply x by down first: down @ up is as large as the weight.",
        "y = x @ weight + bias + s * ((x @ down) @ up)."),
    backward_hints=(
        "x has two paths, through the weight and through down and up; each matrix is the weight of "
        "a linear map.",
        "With h = x down: dh = s dy up^T, and up gets s h^T dy, down gets x^T dh, summed over all "
        "vectors. The weight and the bias have no s.",
        "dx = dy @ weight.T + dh @ down.T; return dx, dweight, dbias, ddown, dup."))
