"""Values of the functions: against definitions, limits and options, and what they refuse."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer import functional as F
from numformer.functional.attention import drops
from numformer.functional.dropout import _mix, dropout_mask, dropout_seed


def test_softmax_ignores_a_constant_and_survives_large_scores():
    x = np.array([[1e4, 1e4 + 1, -1e4]])
    p, _ = F.softmax(x)
    np.testing.assert_allclose(p, [[1 / (1 + math.e), math.e / (1 + math.e), 0]], rtol=1e-12)
    expected = np.array([[0, 1, -2e4]]) - math.log1p(math.e)
    np.testing.assert_allclose(F.log_softmax(x)[0], expected, rtol=1e-15)
    assert abs(F.cross_entropy(x, np.array([1]))[0] + expected[0, 1]) < 1e-15


def test_relus_kink():
    """At 0 the derivative is 0, by convention."""
    y, saved = F.relu(np.array([-1.0, 0.0, 1.0]))
    assert y.tolist() == [0, 0, 1] and F.relu_backward(np.full(3, 2.0), saved).tolist() == [0, 0, 2]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("mask", [np.array([True, False, True, True]), np.array([[True], [False], [True]])])
def test_a_mask_broadcasts(axis, mask, rng):
    x = rng.standard_normal((2, 3, 4))
    p, _ = F.softmax(x, axis, mask)
    whole = np.broadcast_to(mask, x.shape)
    weights = np.exp(x) * whole
    total = weights.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(p, weights / np.where(total == 0, 1, total), rtol=1e-13)


@pytest.mark.parametrize("call, error, words", [
    (lambda: F.embedding(np.array([-1]), np.ones((3, 2))), ValueError, "hold -1"),
    (lambda: F.linear(np.ones((2, 3)), np.ones((3, 4)), np.ones(5)), ValueError, "F=4"),
    (lambda: F.linear(np.ones((2, 3), np.float32), np.ones((3, 4))), TypeError, "float32"),
    (lambda: F.layer_norm(np.ones((2, 4)), np.ones(1)), ValueError, "C=1"),
    (lambda: F.rms_norm(np.ones((2, 4)), np.ones(4), -1.0), ValueError, "epsilon"),
    (lambda: F.dropout(np.ones(3), 1.0), ValueError, "rate"),
    (lambda: F.gelu([1.0]), TypeError, "array of floats"),
    (lambda: F.relu(np.array([1])), TypeError, "array of floats"),
    (lambda: F.softmax(np.ones(3), mask=np.ones(2, bool)), ValueError, "broadcast"),
    (lambda: F.alibi(np.zeros((2, 3, 3)), np.ones(1)), ValueError, "H=1"),
    (lambda: F.rotary(np.ones((3, 4)), *F.rotary_angles(0, 2, 4)), ValueError, "T=2"),
    (lambda: F.attention_dropout_mask(-1, (1, 1, 1, 1), 0.5), ValueError, "seed=-1"),
    (lambda: F.sinusoidal_positions(np.arange(3), 0), ValueError, "width=0")])
def test_bad_input(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_cross_entropy_by_hand(rng):
    logits, targets = rng.standard_normal((2, 3, 5)), np.array([[1, -100, 4], [0, 0, -100]])
    log_p = np.log(np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True))
    terms = [-log_p[b, t, targets[b, t]] for b in range(2) for t in range(3) if targets[b, t] >= 0]
    assert abs(F.cross_entropy(logits, targets)[0] - np.mean(terms)) < 1e-14


def test_label_smoothing_and_z_loss_by_hand(rng):
    logits, targets = rng.standard_normal((4, 5)), np.array([1, 0, 4, 4])
    lse = np.log(np.exp(logits).sum(axis=-1))
    truth = 0.7 * np.eye(5)[targets] + 0.3 / 5
    expected = (-(truth * (logits - lse[:, None])).sum(axis=-1) + 0.2 * lse ** 2).mean()
    assert abs(F.cross_entropy(logits, targets, label_smoothing=0.3, z_loss=0.2)[0] - expected) < 1e-14


def test_ignored_rows_have_no_gradient(rng):
    _, saved = F.cross_entropy(rng.standard_normal((3, 5)), np.array([1, -100, 2]), label_smoothing=0.1)
    gradient = F.cross_entropy_backward(1.0, saved)
    assert (gradient[1] == 0).all() and (gradient[0] != 0).all()


@pytest.mark.parametrize("logits, targets, options, error, words", [
    (np.zeros((2, 5)), np.array([0, 5]), {}, ValueError, "0 .. 4"),
    (np.zeros((2, 5)), np.array([0, -1]), {}, ValueError, "hold -1"),
    (np.zeros((2, 5)), np.array([0.0, 1.0]), {}, TypeError, "integers"),
    (np.zeros((2, 5)), np.array([0, 1, 2]), {}, ValueError, "shape (2,)"),
    (np.zeros((2, 5)), np.array([-100, -100]), {}, ValueError, "every target"),
    (np.zeros((2, 5), int), np.array([0, 1]), {}, TypeError, "floats"),
    (np.zeros((2, 5)), np.array([0, 1]), {"label_smoothing": 1.0}, ValueError, "label_smoothing"),
    (np.zeros((2, 5)), np.array([0, 1]), {"z_loss": -1.0}, ValueError, "z_loss")])
def test_bad_cross_entropy(logits, targets, options, error, words):
    with pytest.raises(error) as caught:
        F.cross_entropy(logits, targets, **options)
    assert words in str(caught.value)


def test_gelu_limits_and_relatives():
    x = np.linspace(-6, 6, 241)
    exact, approximate = F.gelu(x)[0], F.gelu_tanh(x)[0]
    assert np.abs(exact - approximate).max() < 5e-4 and np.abs(exact - approximate).max() > 1e-4
    assert abs(F.gelu(np.array([-10.0]))[0][0] / (-10 * 7.619853024160593e-24) - 1) < 1e-12       # -10 Phi(-10): no cancellation
    np.testing.assert_allclose(F.swish(x, beta=1e4)[0], F.relu(x)[0], atol=1e-4)
    np.testing.assert_allclose(F.swish(x, beta=0.0)[0], x / 2)
    assert np.array_equal(F.silu(x)[0], F.swish(x, beta=1.0)[0])


def test_gelu_tanh_far_out_in_float32():
    with np.errstate(over="ignore"):
        y, saved = F.gelu_tanh(np.array([-1e20, 1e20], np.float32))
        assert y.tolist() == [0, np.float32(1e20)] and F.gelu_tanh_backward(np.ones(2, np.float32), saved).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu", "sigmoid"])
def test_activations_at_the_ends(name):
    with np.errstate(invalid="ignore"):
        y, saved = getattr(F, name)(np.array([-1e4, 1e4, np.nan]))
        gradient = getattr(F, name + "_backward")(np.ones(3), saved)
    assert abs(y[0]) < 1e-300 and y[1] == (1 if name == "sigmoid" else 1e4) and np.isnan(y[2])
    assert abs(gradient[0]) < 1e-300 and gradient[1] == (0 if name == "sigmoid" else 1)


def test_the_sigmoid_takes_the_smaller_exponential():
    """To the bit: of numbers above 0 e^-x, of those below e^x."""
    x = np.linspace(0, 3, 301)
    assert np.array_equal(F.sigmoid(x)[0], 1 / (1 + np.exp(-x)))
    assert np.array_equal(F.sigmoid(-x)[0], np.exp(-x) / (1 + np.exp(-x)))


def test_norms_by_their_definition(rng):
    x, gain, shift = rng.standard_normal((2, 7)), rng.standard_normal(7), rng.standard_normal(7)
    mean, std, rms = x.mean(-1, keepdims=True), x.std(-1, keepdims=True), np.sqrt((x ** 2).mean(-1, keepdims=True))
    np.testing.assert_allclose(F.layer_norm(x, gain, shift, 0.1)[0], (x - mean) / np.sqrt(std ** 2 + 0.1) * gain + shift, rtol=1e-13)
    np.testing.assert_allclose(F.layer_norm(x, gain, shift, 0.1, False)[0], (x - mean) / (std + 0.1) * gain + shift, rtol=1e-13)
    np.testing.assert_allclose(F.rms_norm(x, gain, 0.1)[0], x / np.sqrt(rms ** 2 + 0.1) * gain, rtol=1e-13)
    np.testing.assert_allclose(F.rms_norm(x, gain, 0.1, False)[0], x / (rms + 0.1) * gain, rtol=1e-13)


@pytest.mark.parametrize("inside", [True, False])
def test_norms_of_a_constant_vector_are_finite(inside):
    y, saved = F.layer_norm(np.full((1, 4), 3.0), np.ones(4), np.zeros(4), 1e-5, inside)
    assert (y == 0).all() and np.isfinite(F.layer_norm_backward(np.ones((1, 4)), saved)[0]).all()
    y, saved = F.rms_norm(np.zeros((1, 4)), np.ones(4), 1e-5, inside)
    assert (y == 0).all() and np.isfinite(F.rms_norm_backward(np.ones((1, 4)), saved)[0]).all()


def test_layer_norm_gradient_is_orthogonal_to_ones_and_to_x_hat(rng):
    x = rng.standard_normal((3, 6))
    _, saved = F.layer_norm(x, np.ones(6), epsilon=0.0)
    dx = F.layer_norm_backward(rng.standard_normal((3, 6)), saved)[0]
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-13)
    np.testing.assert_allclose((dx * x).sum(-1), 0, atol=1e-13)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_embedding_gradient_keeps_every_repeat(ids, seed):
    dy = np.random.default_rng(seed).standard_normal((len(ids), 3))
    _, saved = F.embedding(np.array(ids), np.zeros((5, 3)))
    expected = np.zeros((5, 3))
    np.add.at(expected, np.array(ids), dy)
    np.testing.assert_allclose(F.embedding_backward(dy, saved), expected, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_keeps_the_mean_and_the_dtype(dtype, rng):
    y, saved = F.dropout(np.ones(100_000, dtype), 0.3, rng)
    assert y.dtype == dtype and abs(y.mean() - 1) < 0.01 and set(np.unique(y)) == {0, dtype(1 / 0.7)}
    assert np.array_equal(F.dropout_backward(np.ones_like(y), saved), y)


def test_sinusoids_by_their_definition():
    table = F.sinusoidal_positions(np.arange(50), 7)
    for t in (0, 3, 49):
        for i in range(7):
            angle = t / 10000 ** (2 * (i // 2) / 7)
            assert abs(table[t, i] - (math.cos(angle) if i % 2 else math.sin(angle))) < 1e-12
    assert F.sinusoidal_positions(np.arange(3), 4, np.float32).dtype == np.float32


def test_rotary_keeps_lengths_and_refuses_odd_widths(rng):
    x = rng.standard_normal((5, 6))
    y, _ = F.rotary(x, *F.rotary_angles(10, 15, 6))
    np.testing.assert_allclose((y ** 2).sum(-1), (x ** 2).sum(-1), rtol=1e-13)
    with pytest.raises(ValueError, match="width=5 must be even"):
        F.rotary_angles(0, 2, 5)
    with pytest.raises(ValueError, match="half"):
        F.rotary(x, *F.rotary_angles(0, 5, 6), layout="spiral")


def test_kept_tables_cannot_be_written_into():
    with pytest.raises(ValueError, match="read-only"):
        F.rotary_angles(0, 2, 4)[0][0] = 7


def test_norms_have_the_usual_epsilon(rng):
    x, gain, shift = 1e-3 * rng.standard_normal((2, 5)), rng.standard_normal(5), rng.standard_normal(5)
    assert np.array_equal(F.layer_norm(x, gain, shift)[0], F.layer_norm(x, gain, shift, epsilon=1e-5)[0])
    assert np.array_equal(F.rms_norm(x, gain)[0], F.rms_norm(x, gain, epsilon=1e-5)[0])


@pytest.mark.parametrize("epsilon", [0.1, 1e-9])
def test_a_vector_without_variance_has_a_gradient_outside_of_the_root(epsilon):
    """It sits on a kink, where the term of the variance is taken as 0."""
    x, gain = np.full((1, 3), 2.0), np.array([1.0, 2.0, 3.0])
    y, saved = F.layer_norm(x, gain, None, epsilon, epsilon_inside=False)
    dx, _, _ = F.layer_norm_backward(np.ones((1, 3)), saved)
    np.testing.assert_allclose(dx, (gain - 2)[None] / epsilon, rtol=1e-12)
    y, saved = F.rms_norm(0 * x, gain, epsilon, epsilon_inside=False)
    np.testing.assert_allclose(F.rms_norm_backward(np.ones((1, 3)), saved)[0], gain[None] / epsilon, rtol=1e-12)


def test_cross_entropy_of_one_class():
    """Nothing to guess; and an ignored target has a row all the same."""
    loss, saved = F.cross_entropy(np.array([[3.0], [4.0]]), np.array([0, -100]))
    assert loss == 0 and (F.cross_entropy_backward(1.0, saved) == 0).all()


def test_bounds_of_dropout():
    from numformer.functional.dropout import dropout_threshold

    assert dropout_threshold(0.5) == 2**31 and dropout_threshold(1 - 1e-15) == 2**32 - 1 and dropout_threshold(0.0) == 0
    assert F.attention_dropout_mask(2**64 - 1, (1, 1, 2, 2), 0.0).all()
    for seed in (2**64, -1, 1.0, True):
        with pytest.raises(ValueError, match="seed="):
            F.attention_dropout_mask(seed, (1, 1, 2, 2), 0.5)
    for rate in (1, 1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="rate="):
            F.dropout(np.ones(3), rate, np.random.default_rng(0))


@pytest.mark.parametrize("n_buckets, max_distance, bidirectional", [
    (32, 128, True), (32, 128, False), (8, 20, True), (4, 3, True), (2, 2, False)])
def test_buckets_of_distances_by_whole_numbers(n_buckets, max_distance, bidirectional):
    """floor(n/2 log(2d/n) / log(2 max/n)) >= k just where (2d/n)^(n/2) >= (2 max/n)^k: a comparison without any rounding."""
    n = n_buckets // 2 if bidirectional else n_buckets
    exact, distances = n // 2, np.arange(-2 * max_distance, 2 * max_distance)

    def bucket(d):
        if not bidirectional and d > 0:
            return 0
        side, d = (n if d > 0 else 0), abs(d)
        if d < exact:
            return side + d
        reached = [k for k in range(n - exact) if d ** (n - exact) * exact ** k >= max_distance ** k * exact ** (n - exact)]
        return side + exact + reached[-1]

    found = F.relative_position_buckets(distances, n_buckets, max_distance, bidirectional)
    assert found.tolist() == [bucket(int(d)) for d in distances]


def test_buckets_by_default_and_what_they_refuse():
    distances = np.arange(-300, 300)
    assert np.array_equal(F.relative_position_buckets(distances), F.relative_position_buckets(distances, 32, 128, True))
    table = np.arange(64.0).reshape(32, 2)
    found = F.relative_position_bias(table, 150, 140)[0]
    assert np.array_equal(found, table[F.relative_position_buckets(np.arange(-139, 150))].T)
    for bad in (dict(n_buckets=3), dict(n_buckets=2), dict(max_distance=8), dict(max_distance=0), dict(n_buckets=0)):
        with pytest.raises(ValueError, match="relative_position_buckets"):
            F.relative_position_buckets(distances, **bad)
    F.relative_position_buckets(distances, max_distance=9)
    for T, S in ((0, 3), (3, 0)):
        with pytest.raises(ValueError, match="relative_position_bias"):
            F.relative_position_bias(table, T, S)


def test_seeds_have_64_bits():
    seeds = [dropout_seed(np.random.default_rng(k)) for k in range(64)]
    assert len(set(seeds)) == 64 and max(seeds) > 2**63 and max(seeds) < 2**64


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 4), (2, 0), (0, 2)])
def test_the_vectors_of_any_array_are_the_rows_of_one_head(shape):
    columns = shape[-1] if shape else 1
    wanted = F.attention_dropout_mask(11, (1, 1, math.prod(shape) // max(1, columns), columns), 0.5).reshape(shape)
    assert np.array_equal(dropout_mask(11, shape, 0.5), wanted)
    y, _ = F.dropout(np.ones(shape), 0.5, np.random.default_rng(1))
    assert y.shape == shape and set(y.flat) <= {0, 2}


def test_a_hash_equal_to_the_threshold_keeps():
    """A weight stays when its hash is at least the rate; the rate is cut to 32 bits."""
    low, high, zero = np.array([[9], [5], [0]], np.uint32)
    bits = int(_mix(_mix(_mix(_mix(high ^ _mix(low ^ _mix(zero)))))).item())
    seed = (5 << 32) + 9
    assert F.attention_dropout_mask(seed, (1, 1, 1, 1), bits / 2**32).item()
    assert not F.attention_dropout_mask(seed, (1, 1, 1, 1), (bits + 1) / 2**32).item()


def test_rows_of_ngrams_by_their_definition(rng):
    ids = rng.integers(-1, 5, (3, 9))
    for n in (1, 2, 3, 4):
        padded = np.concatenate([np.full((3, n - 1), -1), ids], axis=1)
        rows = F.ngram_rows(ids, n, 5, 6 ** n)
        seen = {}
        for b in range(3):
            for t in range(9):
                gram = tuple(int(i) if i >= 0 else 5 for i in padded[b, t:t + n])
                assert rows[b, t] == sum(token * 6 ** (n - 1 - k) for k, token in enumerate(gram)), "its own number"
                seen[gram] = rows[b, t]
        assert len(set(seen.values())) == len(seen)
        hashed = F.ngram_rows(ids, n, 5, 6 ** n - 1)
        codes = rows.astype(object) * 0x9E3779B97F4A7C15 % 2**64
        assert hashed.tolist() == [[int(code >> 32) % (6 ** n - 1) for code in row] for row in codes]
    assert F.ngram_rows(ids, 9, 50000, 7).max() < 7, "also where the number itself is beyond 64 bits"
    spread = np.bincount(F.ngram_rows(rng.integers(0, 65, (100, 1000)), 4, 65, 50).reshape(-1), minlength=50)
    assert spread.min() > 1700 and spread.max() < 2300
    for bad in (dict(n=0), dict(vocab_size=0), dict(n_rows=0)):
        with pytest.raises(ValueError, match="ngram_rows"):
            F.ngram_rows(ids, **{**dict(n=2, vocab_size=5, n_rows=7), **bad})


@pytest.mark.parametrize("shape", [(4, 4), (3, 8), (8, 3), (1, 5)])
def test_orthogonalize_applies_its_polynomial_to_the_singular_values(shape, rng):
    a, b, c = 3.4445, -4.7750, 2.0315
    G = rng.standard_normal(shape)
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    x = s / np.sqrt((s * s).sum())
    for steps in range(1, 6):
        x = a * x + b * x ** 3 + c * x ** 5
        np.testing.assert_allclose(F.orthogonalize(G, steps), U * x @ Vt, rtol=1e-9, atol=1e-11)
    assert np.array_equal(F.orthogonalize(G), F.orthogonalize(G, 5)) and F.orthogonalize(G.astype(np.float32)).dtype == np.float32
    assert (F.orthogonalize(np.zeros(shape)) == 0).all() and F.orthogonalize(G).flags.c_contiguous
    with pytest.raises(ValueError, match="orthogonalize"):
        F.orthogonalize(np.zeros(3))


def test_five_steps_lead_near_to_one():
    """The polynomial, iterated on all numbers from 0.01 to 1."""
    x = np.linspace(0.01, 1, 2000)
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x ** 3 + 2.0315 * x ** 5
    assert 0.68 < x.min() and x.max() < 1.14


def test_no_dropout_asks_for_nothing(rng):
    """No generator, or a rate of 0: no number is drawn, no mask is made, and what comes out is a copy."""
    x, branch = rng.standard_normal((2, 3, 4))
    for rate, generator in ((0.4, None), (0, rng), (0.0, rng)):
        before = rng.bit_generator.state
        y, saved = F.dropout(x, rate, generator)
        assert np.array_equal(y, x) and y is not x and np.array_equal(F.dropout_backward(x, saved), x)
        y, saved = F.residual_dropout(x, branch, rate, generator)
        dx, dbranch = F.residual_dropout_backward(y, saved)
        assert np.array_equal(y, x + branch) and np.array_equal(dx, y) and np.array_equal(dbranch, y)
        assert rng.bit_generator.state == before
    assert drops(0.1, 5) and not drops(0.0, 5) and not drops(0.1, None)


def test_kappa_where_the_deviation_is_one(rng):
    """Outside of the root, with (sigma + epsilon) / sigma = 1 + epsilon."""
    x, gain, dy = np.array([[1.0, -1.0, 1.0, -1.0]]), rng.standard_normal(4), rng.standard_normal((1, 4))
    g, r = dy * gain, 1 / 1.25
    wanted = r * (g - g.mean() - 1.25 * (x * r) * (g * x * r).mean())
    for norm, back, mean in ((F.layer_norm, F.layer_norm_backward, 0), (F.rms_norm, F.rms_norm_backward, r * g.mean())):
        _, saved = norm(x, gain, epsilon=0.25, epsilon_inside=False)
        np.testing.assert_allclose(back(dy, saved)[0], wanted + mean, rtol=1e-12)


def test_tables_of_the_right_precision_are_not_copied(rng):
    x, (cosine, sine) = rng.standard_normal((3, 4)), F.rotary_angles(0, 3, 4)
    _, saved = F.rotary(x, cosine, sine)
    assert saved[0] is cosine and saved[1] is sine
    _, saved = F.rotary(x.astype(np.float32), cosine, sine)
    assert saved[0].dtype == saved[1].dtype == np.float32


@pytest.mark.parametrize("n_heads", range(1, 20))
def test_slopes_of_any_number_of_heads(n_heads):
    power = max(2**k for k in range(6) if 2**k <= n_heads)
    wanted = [2.0 ** (-8 * (h + 1) / power) for h in range(power)] + [2.0 ** (-8 * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
    np.testing.assert_allclose(F.alibi_slopes(n_heads), wanted[:n_heads], rtol=1e-14)


@pytest.mark.parametrize("options", [
    dict(), dict(weight_decay=0.3), dict(shorten=0.5), dict(beta1=0.6, beta2=0.7, epsilon=0.1, weight_decay=0.2, shorten=2.0)], ids=str)
def test_adam_by_its_equations(options, rng):
    """In place, with the bias of both running means taken out."""
    data, mean, square = rng.standard_normal((3, 4)), np.zeros((3, 4)), np.zeros((3, 4))
    beta1, beta2, epsilon = options.get("beta1", 0.9), options.get("beta2", 0.999), options.get("epsilon", 1e-8)
    theta, m, v = data.copy(), 0, 0
    for t in (1, 2, 3):
        grad = rng.standard_normal((3, 4))
        given = grad.copy()
        assert F.adam_step(data, grad, mean, square, 0.1, t, **options) is None
        g = options.get("shorten", 1) * grad
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        theta = theta * (1 - 0.1 * options.get("weight_decay", 0))
        theta = theta - 0.1 * (m / (1 - beta1 ** t)) / (np.sqrt(v / (1 - beta2 ** t)) + epsilon)
        for found, wanted in ((data, theta), (mean, m), (square, v), (grad, given)):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
