"""Position tables: sinusoids, rotary angles, ALiBi's slopes, and T5's buckets of distances."""

import math

import numpy as np
import pytest

from numformer import functional as F


def test_sinusoids_by_their_definition():
    table = F.sinusoidal_positions(np.arange(50), 7)
    for t in (0, 3, 49):
        for i in range(7):
            angle = t / 10000 ** (2 * (i // 2) / 7)
            assert abs(table[t, i] - (math.cos(angle) if i % 2 else math.sin(angle))) < 1e-12
    assert F.sinusoidal_positions(np.arange(3), 4, np.float32).dtype == np.float32


def test_rotary_keeps_norms_and_refuses_odd_widths(rng):
    x = rng.standard_normal((5, 6))
    y, _ = F.rotary(x, *F.rotary_angles(10, 15, 6))
    np.testing.assert_allclose((y ** 2).sum(-1), (x ** 2).sum(-1), rtol=1e-13)
    with pytest.raises(ValueError, match="width=5 must be even"):
        F.rotary_angles(0, 2, 5)
    with pytest.raises(ValueError, match="half"):
        F.rotary(x, *F.rotary_angles(0, 5, 6), layout="spiral")


def test_cached_tables_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        F.rotary_angles(0, 2, 4)[0][0] = 7


def test_tables_of_the_right_precision_are_not_copied(rng):
    x, (cosine, sine) = rng.standard_normal((3, 4)), F.rotary_angles(0, 3, 4)
    _, saved = F.rotary(x, cosine, sine)
    assert saved[0] is cosine and saved[1] is sine
    _, saved = F.rotary(x.astype(np.float32), cosine, sine)
    assert saved[0].dtype == saved[1].dtype == np.float32


@pytest.mark.parametrize("n_heads", range(1, 20))
def test_alibi_has_slopes_for_any_number_of_heads(n_heads):
    power = max(2**k for k in range(6) if 2**k <= n_heads)
    expected = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    expected += [2.0 ** (-8 * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
    np.testing.assert_allclose(F.alibi_slopes(n_heads), expected[:n_heads], rtol=1e-14)


@pytest.mark.parametrize("n_buckets, max_distance, bidirectional", [
    (32, 128, True), (32, 128, False), (8, 20, True), (4, 3, True), (2, 2, False)])
def test_buckets_equal_those_of_integer_arithmetic(n_buckets, max_distance, bidirectional):
    """floor(n/2 log(2d/n) / log(2 max/n)) >= k just where (2d/n)^(n/2) >= (2 max/n)^k.

    The second form is a comparison of integers, without rounding.
    """
    n = n_buckets // 2 if bidirectional else n_buckets
    exact, distances = n // 2, np.arange(-2 * max_distance, 2 * max_distance)

    def bucket(d):
        if not bidirectional and d > 0:
            return 0
        side, d = (n if d > 0 else 0), abs(d)
        if d < exact:
            return side + d
        reached = [k for k in range(n - exact)
                   if d ** (n - exact) * exact ** k >= max_distance ** k * exact ** (n - exact)]
        return side + exact + reached[-1]

    found = F.relative_position_buckets(distances, n_buckets, max_distance, bidirectional)
    assert found.tolist() == [bucket(int(d)) for d in distances]


def test_defaults_of_buckets_and_what_they_refuse():
    distances = np.arange(-300, 300)
    found = F.relative_position_buckets(distances)
    assert np.array_equal(found, F.relative_position_buckets(distances, 32, 128, True))
    table = np.arange(64.0).reshape(32, 2)
    bias, _ = F.relative_position_bias(table, 150, 140)
    assert np.array_equal(bias, table[F.relative_position_buckets(np.arange(-139, 150))].T)
    for bad in (dict(n_buckets=3), dict(n_buckets=2), dict(max_distance=8), dict(max_distance=0),
                dict(n_buckets=0)):
        with pytest.raises(ValueError, match="relative_position_buckets"):
            F.relative_position_buckets(distances, **bad)
    F.relative_position_buckets(distances, max_distance=9)
    for T, S in ((0, 3), (3, 0)):
        with pytest.raises(ValueError, match="relative_position_bias"):
            F.relative_position_bias(table, T, S)


@pytest.mark.parametrize("call, words", [
    (lambda: F.alibi(np.zeros((2, 3, 3)), np.ones(1)), "H=1"),
    (lambda: F.rotary(np.ones((3, 4)), *F.rotary_angles(0, 2, 4)), "T=2"),
    (lambda: F.partial_rotary(np.ones((3, 2)), *F.rotary_angles(0, 3, 4)), "R=4 .* only D=2"),
    (lambda: F.partial_rotary(np.ones((3, 6)), *F.rotary_angles(0, 2, 4)), "T=2"),
    (lambda: F.rotary_frequencies(3), "width=3 must be even"),
    (lambda: F.linear_frequencies(4, factor=0.9), "factor=0.9"),
    (lambda: F.yarn_attention_factor(0.5), "factor=0.5"),
    (lambda: F.sinusoidal_positions(np.arange(3), 0), "width=0")])
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_scores_depend_on_distance_alone(layout, rng):
    q, k = rng.standard_normal((2, 1, 8))

    def score(m, n):
        rotated = [F.rotary(x, *F.rotary_angles(t, t + 1, 8), layout)[0]
                   for x, t in ((q, m), (k, n))]
        return float((rotated[0] * rotated[1]).sum())

    assert abs(score(7, 3) - score(104, 100)) < 1e-12 and abs(score(7, 3) - score(7, 4)) > 1e-3


def test_scalings_divide_slow_frequencies_and_keep_fast_ones():
    plain = F.rotary_frequencies(64, 10000.0)
    turns = 2048 * plain / (2 * np.pi)
    assert np.array_equal(F.linear_frequencies(64, 10000.0, 8.0), plain / 8)
    for scaled, least, most in ((F.llama3_frequencies(64, 10000.0, 8.0, 2048), 1, 4),
                                (F.yarn_frequencies(64, 10000.0, 8.0, 2048), 0.9, 40)):
        assert np.array_equal(scaled[turns > most], plain[turns > most])
        np.testing.assert_allclose(scaled[turns < least], plain[turns < least] / 8, rtol=1e-15)
        between = (turns > 1.2 * least) & (turns < 0.8 * most)
        assert between.any() and (scaled < plain)[between].all() and (
            scaled > plain / 8)[between].all() and (np.diff(scaled) < 0).all()


def test_a_part_of_a_head_is_rotated_and_the_rest_stays(rng):
    x = rng.standard_normal((2, 3, 5, 7))
    for layout in ("half", "interleaved"):
        tables = (*F.rotary_angles(2, 7, 4), layout)
        y, _ = F.partial_rotary(x, *tables)
        assert np.array_equal(y[..., :4], F.rotary(x[..., :4], *tables)[0])
        assert np.array_equal(y[..., 4:], x[..., 4:])


def test_rotary_layouts_differ_by_a_permutation(rng):
    x = rng.standard_normal((5, 8))
    order = np.arange(8).reshape(2, 4).T.ravel()         # 0 4 1 5 2 6 3 7
    half, _ = F.rotary(x, *F.rotary_angles(0, 5, 8), "half")
    interleaved, _ = F.rotary(x[:, order], *F.rotary_angles(0, 5, 8), "interleaved")
    assert np.array_equal(half[:, order], interleaved)


@pytest.mark.parametrize("n_heads, expected", [
    (8, 2.0 ** -np.arange(1, 9)), (1, [2.0 ** -8]), (3, [2.0 ** -4, 2.0 ** -8, 2.0 ** -2]),
    (6, [2.0 ** -2, 2.0 ** -4, 2.0 ** -6, 2.0 ** -8, 2.0 ** -1, 2.0 ** -3]),
    (12, [*2.0 ** -np.arange(1.0, 9), 2.0 ** -0.5, 2.0 ** -1.5, 2.0 ** -2.5, 2.0 ** -3.5])])
def test_alibi_slopes_are_those_of_the_paper_and_its_code(n_heads, expected):
    assert np.array_equal(F.alibi_slopes(n_heads), expected)


@pytest.mark.parametrize("T, S", [(2, 5), (5, 2), (3, 3)])
def test_alibi_counts_from_the_last_key(T, S):
    y, _ = F.alibi(np.zeros((1, T, S)), np.array([0.5]))
    assert all(y[0, i, j] == -0.5 * abs(i + S - T - j) for i in range(T) for j in range(S))
