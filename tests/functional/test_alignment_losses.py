"""Losses of answers: what they are by enumeration, PyTorch with the formulas of trl, and shards."""

import itertools

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional.losses.policy import NORMALIZATIONS
from numformer.data import Batch
from numformer.models import Decoder, DecoderConfig
from numformer.parameter import Layer
from numformer.training import OPTIMIZERS, TrainingConfig
from numformer.training.parallel.shards import Shards

STEP = 1e-200


def softmax(z):
    e = np.exp(z - z.real.max())
    return e / e.sum()


def slopes(function, z):
    """The gradient of a function of a vector, by the complex step."""
    return np.array([function(z + 1j * STEP * axis).imag / STEP for axis in np.eye(len(z))])


# ---- the divergence by enumeration: no sampling --------------------------------------------------

@pytest.fixture
def policies(rng):
    """Logits of a policy and of its reference over all 6 tokens."""
    return rng.standard_normal((2, 6))


def divergence(z, other, forward=True):
    p, q = softmax(z), softmax(other)
    p, q = (p, q) if forward else (q, p)
    return (p * (np.log(p) - np.log(q))).sum()


def expected_estimate(z, other, estimator):
    """(mean, mean of the gradient as a loss takes it) over samples of the policy: exact sums."""
    tokens = np.arange(len(z))
    p = softmax(z)                                                    # of each sample, constant
    l, saved_l = F.token_log_probs(np.tile(z, (len(z), 1)), tokens)
    k, saved_k = F.kl_estimate(l, np.log(softmax(other)), l.copy(), estimator)
    dl = F.kl_estimate_backward(p, saved_k)                           # the loss: sum p k
    return (p * k).sum(), F.token_log_probs_backward(dl, saved_l).sum(axis=0)


@pytest.mark.parametrize("estimator", ["k1", "k3", "k3 corrected"])
def test_the_mean_of_an_estimator_is_the_divergence(policies, estimator):
    z, other = policies
    assert expected_estimate(z, other, estimator)[0] == pytest.approx(divergence(z, other),
                                                                      rel=1e-13)


def test_k2_is_another_number(policies):
    z, other = policies
    assert abs(expected_estimate(z, other, "k2")[0] / divergence(z, other) - 1) > 0.05


@pytest.mark.parametrize("estimator, forward", [
    ("k2", True), ("k3", False), ("k3 corrected", True)])
def test_which_divergence_has_the_gradient_of_an_estimator(policies, estimator, forward):
    """That of k3 as a loss is the gradient of the other divergence, from the reference."""
    z, other = policies
    expected = slopes(lambda z: divergence(z, other, forward), z)
    found = expected_estimate(z, other, estimator)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    another = slopes(lambda z: divergence(z, other, not forward), z)
    assert np.abs(found - another).max() > 0.01


def test_k1_as_a_loss_has_no_gradient(policies):
    """The mean of the gradient of a log-probability is 0: probabilities sum to 1."""
    assert np.abs(expected_estimate(*policies, "k1")[1]).max() < 1e-15


def test_the_policy_gradient_is_that_of_the_expected_reward(rng):
    """All answers of three tokens, weighted by their probabilities: no sampling, r = 1."""
    z, rewards = rng.standard_normal((3, 4)), rng.standard_normal(64)
    answers = np.array(list(itertools.product(range(4), repeat=3)))
    p = np.exp([sum(np.log(softmax(z[t]))[token] for t, token in enumerate(answer))
                for answer in answers])

    def reward(flat):
        moved = np.array([np.log(softmax(row)) for row in flat.reshape(3, 4)])
        return (np.exp(moved[np.arange(3), answers].sum(axis=1)) * rewards).sum()

    l, saved_l = F.token_log_probs(np.tile(z, (64, 1, 1)), answers)
    counts = np.full(l.shape, True)
    _, saved = F.policy_loss(l, l.copy(), 64 * p * rewards, counts, normalization="constant",
                             length=1)
    found = F.token_log_probs_backward(F.policy_loss_backward(1.0, saved), saved_l).sum(axis=0)
    np.testing.assert_allclose(-found.ravel(), slopes(reward, z.ravel()), rtol=1e-11, atol=1e-13)


# ---- properties ----------------------------------------------------------------------------------

def rollouts(rng, N=6, T=5):
    counts = np.arange(T) < rng.integers(1, T + 1, (N, 1))
    old = -0.2 - rng.random((N, T))
    l, reference = old + 0.4 * rng.standard_normal((2, N, T))
    return l, old, rng.standard_normal(N), counts, reference


def test_log_probabilities_are_those_of_the_cross_entropy(rng):
    z, tokens = rng.standard_normal((2, 4, 7)), rng.integers(0, 7, (2, 4))
    tokens[0, 1:] = F.IGNORE_INDEX
    l, saved = F.token_log_probs(z, tokens)
    loss, saved_loss = F.cross_entropy(z, tokens)
    n = (tokens != F.IGNORE_INDEX).sum()
    assert -l.sum() / n == pytest.approx(loss, rel=1e-14)
    np.testing.assert_allclose(-F.token_log_probs_backward(np.full(l.shape, 1 / n), saved),
                               F.cross_entropy_backward(1.0, saved_loss), atol=1e-15)


def test_padding_and_prompts_change_nothing(rng):
    """Whatever is there, NaN too: neither the loss nor the gradient sees it."""
    l, old, A, counts, reference = rollouts(rng)
    options = dict(beta=0.2, normalization="sequence")
    loss, saved = F.policy_loss(l, old, A, counts, reference, **options)
    others = [np.where(counts, x, np.nan) for x in (l, old, reference)]
    again, saved_again = F.policy_loss(others[0], others[1], A, counts, others[2], **options)
    gradient = F.policy_loss_backward(1.0, saved_again)
    assert again == loss and not gradient[~counts].any()
    np.testing.assert_array_equal(gradient, F.policy_loss_backward(1.0, saved))


def test_answers_of_other_lengths_weigh_as_the_normalization_says():
    """Two answers, of one and of four tokens, as the policy that sampled them."""
    l = np.zeros((2, 4))
    counts = np.array([[True, False, False, False], [True] * 4])
    weights = {}
    for name in NORMALIZATIONS:
        _, saved = F.policy_loss(l, l, np.ones(2), counts, normalization=name,
                                 length=8 if name == "constant" else None)
        weights[name] = -F.policy_loss_backward(1.0, saved)[:, 0]
    assert weights["sequence"].tolist() == [1 / 2, 1 / 8]
    assert weights["token"].tolist() == [1 / 5, 1 / 5]
    assert weights["constant"].tolist() == [1 / 16, 1 / 16]


def test_a_ratio_may_come_back_into_the_clip():
    """For A > 0 the gradient ends above 1 + clip_high, but not below 1 - clip_low."""
    l = np.log([[0.5, 1.0, 1.5]])
    old, counts = np.zeros((1, 3)), np.full((1, 3), True)
    for A, moves in ((1.0, [True, True, False]), (-1.0, [False, True, True])):
        _, saved = F.policy_loss(l, old, np.array([A]), counts)
        assert (F.policy_loss_backward(1.0, saved)[0] != 0).tolist() == moves


def test_group_advantages(rng):
    rewards = rng.standard_normal((3, 5))
    rewards[1] = 0.1                                                  # no mean of 0.1 is exact
    for scale in (True, False):
        A = F.group_advantages(rewards, scale)
        assert np.abs(A.sum(axis=1)).max() < 1e-14 and not A[1].any()
        assert (np.argsort(A[0]) == np.argsort(rewards[0])).all()
    scaled = F.group_advantages(rewards, epsilon=0.0)
    np.testing.assert_allclose(scaled[[0, 2]].std(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(F.group_advantages(rewards, scale=False),
                               np.where(np.arange(3)[:, None] == 1, 0,
                                        rewards - rewards.mean(axis=1, keepdims=True)), rtol=1e-14)
    assert F.differing_groups(rewards).tolist() == [True, False, True]


# ---- bad input -----------------------------------------------------------------------------------

ROWS, VECTOR, COUNTS = np.zeros((2, 3)), np.zeros(2), np.full((2, 3), True)
WRONG = [
    (lambda: F.token_log_probs(np.zeros((2, 4)), np.array([0, 4])), ValueError, "tokens"),
    (lambda: F.token_log_probs(np.zeros((2, 4)), np.array([0])), ValueError, "tokens of shape"),
    (lambda: F.token_log_probs(np.zeros((2, 4)), np.array([0, 1]), 0.0), ValueError, "temperature"),
    (lambda: F.dpo_loss(VECTOR, VECTOR[:1], VECTOR, VECTOR), ValueError, "rejected"),
    (lambda: F.dpo_loss(*[np.zeros(0)] * 4), ValueError, "at least one pair"),
    (lambda: F.dpo_loss(*[VECTOR] * 4, beta=0.0), ValueError, "beta"),
    (lambda: F.dpo_loss(*[VECTOR] * 4, label_smoothing=0.5), ValueError, "label_smoothing"),
    (lambda: F.dpo_loss(*[VECTOR] * 4, likelihood=-1.0), ValueError, "likelihood"),
    (lambda: F.kl_estimate(VECTOR, VECTOR, VECTOR[:1]), ValueError, "old_log_probs has shape"),
    (lambda: F.kl_estimate(VECTOR, VECTOR, VECTOR, "k4"), ValueError, "k4"),
    (lambda: F.policy_loss(ROWS, ROWS, np.zeros(3), COUNTS), ValueError, "advantages"),
    (lambda: F.policy_loss(ROWS, ROWS, VECTOR, 1 * COUNTS), TypeError, "array of bool"),
    (lambda: F.policy_loss(ROWS, ROWS, VECTOR, ~COUNTS), ValueError, "at least one token"),
    (lambda: F.policy_loss(ROWS, ROWS, VECTOR, COUNTS, beta=0.1), ValueError, "needs reference"),
    (lambda: F.policy_loss(ROWS, ROWS, VECTOR, COUNTS, clip_low=1.5), ValueError, "at most 1"),
    (lambda: F.policy_loss(ROWS, ROWS, VECTOR, COUNTS, length=8.0), ValueError, "length=8.0"),
    (lambda: F.policy_loss(ROWS, ROWS, VECTOR, COUNTS, normalization="constant"), ValueError,
     "length=None"),
    (lambda: F.policy_loss(ROWS, ROWS, VECTOR, COUNTS, normalization="batch"), ValueError, "batch"),
    (lambda: F.group_advantages(VECTOR), ValueError, "rewards"),
    (lambda: F.group_advantages(np.zeros((0, 4))), ValueError, "empty"),
    (lambda: F.low_rank_linear(ROWS, np.zeros((3, 4)), None, np.zeros((3, 0)), np.zeros((0, 4))),
     ValueError, "at least 1"),
    (lambda: F.low_rank_linear(ROWS, np.zeros((3, 4)), None, np.zeros((3, 2)), np.zeros((1, 4))),
     ValueError, "up must have shape"),
]


@pytest.mark.parametrize("call, error, words", WRONG, ids=[words for *_, words in WRONG])
def test_what_does_not_fit_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


# ---- PyTorch -------------------------------------------------------------------------------------

def torch_gradients(loss, *tensors):
    loss.backward()
    return float(loss.detach()), [tensor.grad.numpy() for tensor in tensors]


@pytest.mark.parametrize("smoothing, likelihood", [(0.0, 0.0), (0.1, 0.3)])
def test_torch_witness_of_dpo(rng, smoothing, likelihood):
    """The formula of trl's DPOTrainer, loss_type "sigmoid"."""
    torch = pytest.importorskip("torch")
    w, l, reference_w, reference_l = rng.standard_normal((4, 7)) - 4          # noqa: E741
    tw, tl = (torch.tensor(x, requires_grad=True) for x in (w, l))
    logits = (tw - tl) - (torch.tensor(reference_w) - torch.tensor(reference_l))
    sigmoid = torch.nn.functional.logsigmoid
    theirs = (-sigmoid(0.3 * logits) * (1 - smoothing) - sigmoid(-0.3 * logits) * smoothing
              - likelihood * tw).mean()
    expected, gradients = torch_gradients(theirs, tw, tl)
    loss, saved = F.dpo_loss(w, l, reference_w, reference_l, 0.3, smoothing, likelihood)
    assert loss == pytest.approx(expected, rel=1e-13)
    for mine, other in zip(F.dpo_loss_backward(1.0, saved), gradients):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "k3 corrected"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_torch_witness_of_the_policy_loss(rng, normalization, estimator):
    """The formulas of trl's GRPOTrainer; loss_type "grpo", "bnpo" and "dr_grpo"."""
    torch = pytest.importorskip("torch")
    l, old, A, counts, reference = rollouts(rng)
    length = 9 if normalization == "constant" else None
    loss, saved = F.policy_loss(l, old, A, counts, reference, 0.2, 0.28, 0.3, estimator,
                                normalization, length)
    tl = torch.tensor(l, requires_grad=True)
    mask, told, tref = (torch.tensor(x) for x in (counts.astype(float), old, reference))
    ratio, tA = torch.exp(tl - told), torch.tensor(A)[:, None]
    per_token = -torch.min(ratio * tA, torch.clamp(ratio, 1 - 0.2, 1 + 0.28) * tA)
    d = tref - tl
    k3 = torch.exp(d) - d - 1
    kl = {"k1": -d, "k2": d ** 2 / 2, "k3": k3, "k3 corrected": ratio * k3}[estimator]
    per_token = per_token + 0.3 * kl
    theirs = {"sequence": lambda: ((per_token * mask).sum(-1) / mask.sum(-1)).mean(),
              "token": lambda: (per_token * mask).sum() / mask.sum(),
              "constant": lambda: (per_token * mask).sum() / (len(l) * 9)}[normalization]()
    expected, (gradient,) = torch_gradients(theirs, tl)
    clipped = (np.exp(l - old) > 1.28) & (A[:, None] > 0) & counts
    assert clipped.any()
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(F.policy_loss_backward(1.0, saved), gradient, rtol=1e-12, atol=1e-15)


def test_torch_witness_of_log_probabilities_and_low_rank_maps(rng):
    torch = pytest.importorskip("torch")
    arrays = [rng.standard_normal(shape) for shape in ((2, 3, 4), (4, 6), (6,), (4, 2), (2, 6))]
    tokens = rng.integers(0, 6, (2, 3))
    y, saved_map = F.low_rank_linear(*arrays, alpha=8.0, rank_stabilized=True)
    l, saved = F.token_log_probs(y, tokens, temperature=0.7)
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    x, weight, bias, down, up = tensors
    logits = (x @ weight + bias + 8.0 / 2 ** 0.5 * x @ down @ up) / 0.7
    theirs = torch.gather(logits.log_softmax(-1), 2, torch.tensor(tokens)[..., None])[..., 0]
    weights = rng.standard_normal((2, 3))
    expected, gradients = torch_gradients((theirs * torch.tensor(weights)).sum(), *tensors)
    assert (l * weights).sum() == pytest.approx(expected, rel=1e-12)
    dy = F.token_log_probs_backward(weights, saved)
    for mine, other in zip(F.low_rank_linear_backward(dy, saved_map), gradients):
        np.testing.assert_allclose(mine, other, rtol=1e-11, atol=1e-13)


# ---- shards --------------------------------------------------------------------------------------

CONFIG = DecoderConfig(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8,
                       dtype="float64")


class PolicyOfAnswers(Layer):
    """A decoder with the policy loss, whose options are given."""

    def __init__(self, **options):
        self.decoder, self.options = Decoder(CONFIG, np.random.default_rng(0)), options

    def loss_counts(self, batch):
        counts = np.asarray(batch.targets) != F.IGNORE_INDEX
        by_token = self.options["normalization"] == "token"
        return int(counts.sum() if by_token else counts.any(axis=1).sum()),

    def loss(self, batch, rng=None):
        logits, saved = self.decoder.forward(batch.inputs, rng)
        l, saved_l = F.token_log_probs(logits, batch.targets)
        loss, saved_loss = F.policy_loss(
            l, batch.old, batch.advantages, batch.targets != F.IGNORE_INDEX, batch.reference,
            beta=0.1, **self.options)
        return loss, (saved, saved_l, saved_loss)

    def loss_backward(self, saved, dloss=1.0):
        saved, saved_l, saved_loss = saved
        dl = F.policy_loss_backward(dloss, saved_loss)
        self.decoder.backward(F.token_log_probs_backward(dl, saved_l), saved)


class PreferenceOfAnswers(Layer):
    """A decoder with the DPO loss: a row of a batch is a pair of answers."""

    def __init__(self):
        self.decoder = Decoder(CONFIG, np.random.default_rng(0))

    def loss_counts(self, batch):
        return len(batch.reference),

    def loss(self, batch, rng=None):
        sums, kept = [], []
        for k in range(2):
            logits, saved = self.decoder.forward(batch.inputs[:, k], rng)
            l, saved_l = F.token_log_probs(logits, batch.targets[:, k])
            sums.append(l.sum(axis=1))
            kept.append((saved, saved_l, l.shape))
        loss, saved_loss = F.dpo_loss(*sums, *batch.reference.T.copy(), beta=0.3, likelihood=0.1)
        return loss, (kept, saved_loss)

    def loss_backward(self, saved, dloss=1.0):
        kept, saved_loss = saved
        for ds, (saved, saved_l, shape) in zip(F.dpo_loss_backward(dloss, saved_loss), kept):
            dl = np.broadcast_to(ds[:, None], shape)
            self.decoder.backward(F.token_log_probs_backward(dl, saved_l), saved)


def gradient_of(model, batch, **settings):
    config = TrainingConfig(steps=1, batch_size=8, **settings)
    optimizer = OPTIMIZERS["adamw"](model, config)
    loss, norm = Shards(model, optimizer, config).gradient(batch, 0)
    return loss, norm, {name: p.grad.copy() for name, p in model.named_parameters()}


DIVISIONS = [dict(shards=2), dict(shards=4), dict(accumulation=2), dict(shards=2, accumulation=2)]


def assert_no_division_matters(model, batch):
    loss, norm, gradient = gradient_of(model, batch)
    for settings in DIVISIONS:
        other_loss, other_norm, other = gradient_of(model, batch, **settings)
        assert (other_loss, other_norm) == pytest.approx((loss, norm), rel=1e-12)
        for name in gradient:
            np.testing.assert_allclose(other[name], gradient[name], rtol=1e-12, atol=1e-12 * norm)


def of_lengths(rng, shape):
    """Ids, and targets that count up to a length of 1 to 8; a row has none."""
    ids = rng.integers(0, 9, (*shape, 8))
    targets = np.where(np.arange(8) < rng.integers(1, 9, (*shape, 1)), np.roll(ids, -1, axis=-1),
                       F.IGNORE_INDEX)
    return ids, targets


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_shards_do_not_change_a_policy_loss(rng, normalization):
    """Each normalization has its own denominator: tokens, or answers; a row has no answer."""
    ids, targets = of_lengths(rng, (8,))
    targets[3] = F.IGNORE_INDEX
    model = PolicyOfAnswers(normalization=normalization,
                            length=8.0 if normalization == "constant" else None)
    l, _ = F.token_log_probs(model.decoder(ids), targets)
    old, reference = l + 0.3 * rng.standard_normal((2, *l.shape))
    assert_no_division_matters(model, Batch(inputs=ids, targets=targets, old=old,
                                            reference=reference,
                                            advantages=rng.standard_normal(8)))


def test_shards_do_not_change_a_preference_loss(rng):
    ids, targets = of_lengths(rng, (8, 2))
    batch = Batch(inputs=ids, targets=targets, reference=-10 - rng.random((8, 2)))
    assert_no_division_matters(PreferenceOfAnswers(), batch)
