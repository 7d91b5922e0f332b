"""The compiled step of one token as plain Python: its parts, and blocks of any widths."""

import math

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.kernels.decoding import branches, token_step, weights


@pytest.fixture
def set_parts(monkeypatch):
    def set_parts(parts):
        for module in (branches, token_step, weights):
            monkeypatch.setattr(module, "PARTS", parts)

    return set_parts


def attention_to_cache(q, keys, values, slope):
    """(o, scores) of one head of attention, q (D,), to all positions, keys (S, D)."""
    z = keys @ q / math.sqrt(len(q)) - slope * np.arange(len(keys))[::-1]
    p = np.exp(z - z.max())
    return p / p.sum() @ values, z


@pytest.mark.parametrize("D", [1, 3, 4])
def test_attention_to_a_cache_follows_its_equation(D, rng):
    for S in (1, 2, 7):
        for slope in (0.0, 0.4):
            for size in (1, 1e3):       # exponentials of large scores would overflow
                q, (keys, values) = size * rng.standard_normal(D), rng.standard_normal((2, S, D))
                scores, o = np.full((2, 8), 7.0)
                branches.attend_to_cache(q, keys, values, slope, scores, o)
                wanted, z = attention_to_cache(q, keys, values, slope)
                np.testing.assert_allclose(o[:D], wanted, rtol=1e-11, atol=1e-12)
                np.testing.assert_allclose(scores[:S], z, rtol=1e-11, atol=1e-12)
                assert (o[D:] == 7).all() and (scores[S:] == 7).all()


def test_vectors_are_found_by_their_address(rng):
    x = rng.standard_normal(9)
    assert weights.addresses([None, x]) == [0, x.ctypes.data]
    assert weights.vector_at(x.ctypes.data, 2, 7, x).tolist() == x[2:7].tolist()
    assert len(weights.vector_at(0, 2, 7, x)) == 0


def test_a_product_is_the_sum_of_its_parts(rng, set_parts):
    """For any width; with and without bias; from any column on."""
    set_parts(3)
    for width in (1, 3, 6):
        x, weight = rng.standard_normal(5), rng.standard_normal((5, width))
        bias, sums = rng.standard_normal(width), np.full((3, 2 + width), 7.0)
        for part in range(3):
            start, stop = 5 * part // 3, 5 * (part + 1) // 3
            weights.multiply_part(x, weight.ctypes.data, start, stop, sums[part, 2:])
        assert (sums[:, :2] == 7).all()
        np.testing.assert_allclose(sums[1, 2:], x[1:3] @ weight[1:3], rtol=1e-12)
        for b in (bias, np.zeros(0)):
            y = np.full(width, 7.0)
            weights.add_parts(sums, 2, b, y)
            np.testing.assert_allclose(y, x @ weight + (bias if len(b) else 0), rtol=1e-12)


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_are_normalized_and_rotated_in_place(heads, rng, monkeypatch):
    x, weight = rng.standard_normal((heads, 6)), rng.standard_normal(6)
    seen, normalize_vector = [], branches.normalize_vector
    monkeypatch.setattr(branches, "normalize_vector", lambda *given: (
        seen.append(given[0].copy()) or normalize_vector(*given)))
    y = x.reshape(-1).copy()
    branches.norm_heads(y, weight, 0.1, 6)
    wanted, _ = F.rms_norm(x, weight, 0.1)
    np.testing.assert_allclose(y.reshape(x.shape), wanted, rtol=1e-12)
    assert np.array_equal(seen, x)
    cosine, sine = F.rotary_angles(5, 6, 6)
    for layout in ("half", "interleaved"):
        y = x.reshape(-1).copy()
        branches.rotate_heads(y, cosine[0], sine[0], layout == "half", 6)
        wanted = F.rotary(x[:, None], cosine, sine, layout)[0][:, 0]
        np.testing.assert_allclose(y.reshape(x.shape), wanted, rtol=1e-12)


class Blocks:
    """Two blocks with random weights, and their step as an equation."""

    def __init__(self, rng, H, G, D, width, capacity, V, gated, options):
        C, KV, L = H * D, G * D, 2
        self.H, self.G, self.D, self.C, self.width, self.gated = H, G, D, C, width, gated
        self.position, self.V, self.capacity = capacity - 1, V, capacity
        shapes = dict(
            norm1_weight=(C,), norm1_bias=(C,), query=(C, C), query_bias=(C,), key=(C, KV),
            key_bias=(KV,), value=(C, KV), value_bias=(KV,), query_norm_weight=(D,),
            key_norm_weight=(D,), output=(C, C), output_bias=(C,), norm2_weight=(C,),
            norm2_bias=(C,), gate=(C, width), gate_bias=(width,), hidden=(C, width),
            hidden_bias=(width,), down=(width, C), down_bias=(C,))
        assert tuple(shapes) == weights.NAMES
        self.blocks = [{name: rng.standard_normal(shape) for name, shape in shapes.items()}
                       for _ in range(L)]
        self.final = [rng.standard_normal(C), rng.standard_normal(C), rng.standard_normal((V, C))]
        for w in self.blocks:
            w.update(dict.fromkeys(name for name in shapes if self.is_absent(name, options)))
        if not options.get("norm_biases"):
            self.final[1] = None
        self.slopes = rng.random(H) if options.get("slopes") else None
        self.epsilons = 0.1 + rng.random((L, 4))
        self.caches = rng.standard_normal((L, 2, G, capacity, D))
        self.centred, self.inside, self.halves = (
            options.get(name, name == "inside") for name in ("centred", "inside", "halves"))
        self.angles = None
        if options.get("rotary") and D % 2 == 0:                    # an odd width has no pairs
            tables = F.rotary_angles(self.position, self.position + 1, D)
            self.angles = tuple(table[0] for table in tables)

    def is_absent(self, name, options):
        if name.startswith("norm"):
            return name.endswith("bias") and not options.get("norm_biases")
        return (name.startswith("gate") and not self.gated
                or name.endswith("bias") and not options.get("biases")
                or name.endswith("norm_weight") and not options.get("norms"))

    def norm(self, x, weight, bias, epsilon):
        if not self.centred:
            return (F.rms_norm if self.inside else F.rms_norm_outside)(x, weight, epsilon)[0]
        bias = np.zeros_like(weight) if bias is None else bias
        layer_norm = F.layer_norm if self.inside else F.layer_norm_outside
        return layer_norm(x, weight, bias, epsilon)[0]

    def heads_of(self, x, weight, epsilon):
        x = x.reshape(-1, self.D)
        x = x if weight is None else F.rms_norm(x, weight, epsilon)[0]
        if self.angles is None:
            return x
        layout = "half" if self.halves else "interleaved"
        return F.rotary(x[:, None], *(table[None] for table in self.angles), layout)[0][:, 0]

    def expected(self, x):
        """(logits, caches), from the functions of the reference."""
        caches, h = self.caches.copy(), x
        for w, epsilons, (keys, values) in zip(self.blocks, self.epsilons, caches):
            a = self.norm(h, w["norm1_weight"], w["norm1_bias"], epsilons[0])
            k = self.heads_of(affine(a, w, "key"), w["key_norm_weight"], epsilons[3])
            keys[:, self.position] = k
            values[:, self.position] = affine(a, w, "value").reshape(-1, self.D)
            q = self.heads_of(affine(a, w, "query"), w["query_norm_weight"], epsilons[2])
            o = [attention_to_cache(q[n], keys[n * self.G // self.H], values[n * self.G // self.H],
                                    0 if self.slopes is None else self.slopes[n])[0]
                 for n in range(self.H)]
            h = h + affine(np.reshape(o, -1), w, "output")
            a = self.norm(h, w["norm2_weight"], w["norm2_bias"], epsilons[1])
            u = affine(a, w, "hidden")
            f = F.silu(affine(a, w, "gate"))[0] * u if self.gated else F.silu(u)[0]
            h = h + affine(f, w, "down")
        weight, bias, head = self.final
        return head @ self.norm(h, weight, bias, 0.2), caches

    def step(self, x, tasks, run):
        """The logits of the kernel, which writes into the caches."""
        table = [weights.addresses([w[name] for name in weights.NAMES]) for w in self.blocks]
        caches = [(*weights.addresses(pair), self.capacity) for pair in self.caches]
        return token_step.run_token_step(
            x, np.array(table), self.epsilons, np.array(weights.addresses(self.final)), 0.2,
            self.width, self.centred, self.inside, "silu", self.angles, self.halves, self.slopes,
            self.H, self.G, caches, self.position, self.V, tasks, run)


def affine(x, w, name):
    return x @ w[name] + (0 if w[f"{name}_bias"] is None else w[f"{name}_bias"])


@pytest.mark.parametrize("parts, tasks", [(1, 1), (2, 3), (5, 2)])
@pytest.mark.parametrize("H, G, D, width, capacity, V", [
    (3, 1, 2, 2, 3, 5), (3, 3, 2, 1, 1, 1), (3, 1, 2, 11, 3, 9), (6, 2, 2, 4, 40, 3),
    (1, 1, 1, 1, 1, 2), (1, 1, 2, 3, 4, 2), (2, 2, 1, 3, 2, 4)])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("options", [
    dict(), dict(centred=True, norm_biases=True, biases=True), dict(inside=False),
    dict(norms=True, slopes=True), dict(rotary=True),
    dict(rotary=True, halves=True, norms=True, biases=True)], ids=str)
def test_a_step_through_blocks_of_any_widths_follows_its_equation(
        parts, tasks, H, G, D, width, capacity, V, gated, options, rng, set_parts, monkeypatch):
    """A feed-forward narrower or wider than the model; a cache shorter or longer."""
    set_parts(parts)
    model, x = Blocks(rng, H, G, D, width, capacity, V, gated, options), rng.standard_normal(H * D)
    wanted, wanted_caches = model.expected(x)
    calls, kernel, done = [], token_step.token_step, []
    monkeypatch.setattr(token_step, "TOKEN_STEP", {
        x.dtype: lambda *given: calls.append(given) or kernel(*given)})
    logits = model.step(x, tasks, lambda work, tasks: done.extend(work(task) for task in tasks))
    assert done == [True] * min(tasks, parts) and len(calls) == len(done)
    np.testing.assert_allclose(logits, wanted, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(model.caches, wanted_caches, rtol=1e-10, atol=1e-11)

    given, C, L = dict(zip(kernel.__code__.co_varnames, calls[0])), model.C, 2
    assert given["cosine"].ndim == given["slopes"].ndim == 1
    assert len(given["cosine"]) == (0 if model.angles is None else D // 2)
    assert given["queues"].tolist() == [[1] * parts + [parts]] * (4 * L + 1)
    assert given["workspace"].shape == (7, max(C, width, capacity))
    assert given["outer"].shape == (2 * L * parts, C)
    assert given["inner"].shape == (parts, max(3 * C, 2 * width))
    workspaces = [call[-1] for call in calls]
    assert not any(np.shares_memory(a, b) for n, a in enumerate(workspaces)
                   for b in workspaces[:n])
