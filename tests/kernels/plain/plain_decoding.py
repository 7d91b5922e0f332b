"""The compiled step of several texts as plain Python: its parts, and blocks of any widths."""

import math

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.kernels.decoding import attention, panels, phases, run, table

WIDTH = 4                               # of a panel, and positions of a page: 32 bytes of float64


def attention_of(q, keys, values, slope):
    """(o, scores) of one head of attention, q (D,), to all positions, keys (S, D)."""
    z = keys @ q / math.sqrt(len(q)) - slope * np.arange(len(keys))[::-1]
    p = np.exp(z - z.max())
    return p / p.sum() @ values, z


@pytest.mark.parametrize("S", [1, 3, 4, 7, 8])
def test_a_softmax_of_scores_follows_its_equation(S, rng):
    for slope in (0.0, 0.4):
        for size in (1, 1e3):           # exponentials of large scores would overflow
            z = size * rng.standard_normal(S)
            s, lanes = np.full(-(-S // WIDTH) * WIDTH, 7.0), np.full(WIDTH, 7.0)
            s[:S] = z
            one_over_sum = attention.softmax_of_scores(s, S, 0.3, slope, lanes)
            z = z * 0.3 - slope * np.arange(S)[::-1]
            np.testing.assert_allclose(s[:S], np.exp(z - z.max()), rtol=1e-11)
            assert (s[S:] == 0).all()
            np.testing.assert_allclose(one_over_sum, 1 / s.sum(), rtol=1e-12)


@pytest.mark.parametrize("J", [0, 1, 3, 4, 5, 8, 11])
def test_weighted_values_are_added(J, rng):
    p, values, o = rng.standard_normal(J), rng.standard_normal((J + 2, 3)), rng.standard_normal(3)
    expected = o + p @ values[:J]
    attention.add_values(p, values, o)
    np.testing.assert_allclose(o, expected, rtol=1e-12)


def test_vectors_are_found_by_their_address(rng):
    x = rng.standard_normal(9)
    assert panels.vector_at(x.ctypes.data, 5, x).tolist() == x[:5].tolist()
    assert len(panels.vector_at(0, 5, x)) == 0


@pytest.mark.parametrize("widths", [[1], [4], [3, 5], [4, 4, 1], [2, 1, 9]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_panels_hold_the_columns_of_all_matrices(widths, order, rng):
    matrices = [rng.standard_normal((3, width)).copy(order) for width in widths]
    biases = [rng.standard_normal(width) if n % 2 else None for n, width in enumerate(widths)]
    packed, columns = panels.Panels(matrices, biases), sum(widths)
    together = np.zeros((3, -(-columns // WIDTH) * WIDTH))
    together[:, :columns] = np.concatenate(matrices, axis=1)
    assert packed.columns == columns and packed.numbers.shape[1:] == (3, WIDTH)
    assert np.array_equal(packed.numbers.transpose(1, 0, 2).reshape(3, -1), together)
    expected = np.concatenate([np.zeros(width) if bias is None else bias
                               for width, bias in zip(widths, biases)])
    assert packed.bias[:columns].tolist() == expected.tolist() and not packed.bias[columns:].any()


@pytest.mark.parametrize("rows", [1, 2, 4, 7, 8, 15, 16, 23])
def test_some_rows_and_columns_are_multiplied_by_a_panel(rows, rng):
    """Rows of x from 3 on and its columns from 2 on; the result in rows from 1 on."""
    x, weight, bias = (rng.standard_normal(shape) for shape in ((30, 9), (6, WIDTH), WIDTH))
    packed, y = panels.Panels([weight], [bias]), np.full((30, 11), np.nan)
    panels.multiply_panel(panels.SAME, x, 3, 3 + rows, 2, 6, packed.numbers.ctypes.data, 0,
                          packed.bias.ctypes.data, y, 1, 5, False)
    np.testing.assert_allclose(y[1:1 + rows, 5:5 + WIDTH], x[3:3 + rows, 2:8] @ weight + bias,
                               rtol=1e-12)
    assert np.isfinite(y).sum() == rows * WIDTH


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 11, 16, 23])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("weights", [None, "bfloat16", "int8"])
def test_units_make_a_product(rows, add, weights, rng):
    """For any number of rows: some in each block of rows, in tiles of 8, 4, 2 and 1."""
    x, weight, bias = (rng.standard_normal(shape) for shape in ((rows, 6), (6, 9), 9))
    packed = panels.Panels([weight], [bias], weights)
    weight = weight if weights is None else F.round_weight(weight, weights)
    matrix = np.array(table.addresses([packed], ["down"]))
    y = rng.standard_normal((rows, 12)) if add else np.full((rows, 12), np.nan)
    expected = x @ weight + bias + (y[:, :9] if add else 0)
    units = panels.product_units(rows, 9, 8)
    assert units == 3 * -(-rows // 5)
    done = np.zeros(y.shape, int)
    for unit in rng.permutation(units):
        before = y.copy()
        panels.multiply_unit(packed.kind, packed.numbers.itemsize, x, rows, unit, 6, matrix, y,
                             add)
        done += ~((y == before) | (np.isnan(y) & np.isnan(before)))
    assert (done[:, :9] == 1).all()                                 # no unit does another's work
    np.testing.assert_allclose(y[:, :9], expected, rtol=1e-12)
    assert panels.product_units(0, 9, 8) == 0


@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
@pytest.mark.parametrize("units", [0, 1, 3, 8])
def test_each_unit_is_taken_once_own_ones_first(tasks, units):
    for starter in range(tasks):
        queue, taken = np.zeros(tasks + 1, np.int64), []
        unit = phases.next_unit(queue, units, starter, tasks)
        while unit >= 0:
            taken.append(unit)
            unit = phases.next_unit(queue, units, starter, tasks)
        first = units * starter // tasks
        assert taken == [*range(first, units), *range(first)]
        assert all(phases.next_unit(queue, units, task, tasks) == -1 for task in range(tasks))


def test_a_task_gives_way_while_it_waits(monkeypatch):
    queue, waited = np.array([0, 0, 3]), []
    phases.wait_for_units(queue, 3)

    def give_way():
        waited.append(queue[2])
        queue[2] += 1

    monkeypatch.setattr(phases, "give_way", give_way)
    phases.wait_for_units(queue, 5)
    assert waited == [3, 4]
    assert phases.let_the_caller_leave_first(queue, 0) is True
    assert phases.let_the_caller_leave_first(queue, 2) is True and queue.tolist() == [0, 0, 5]


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_are_normalized_and_rotated_in_place(heads, rng):
    x, weight = rng.standard_normal((heads, 6)), rng.standard_normal(6)
    y = x.reshape(-1).copy()
    attention.norm_heads(y, weight, 0.1, 6)
    wanted, _ = F.rms_norm(x, weight, 0.1)
    np.testing.assert_allclose(y.reshape(x.shape), wanted, rtol=1e-12)
    cosine, sine = F.rotary_angles(5, 6, 6)
    for layout in ("half", "interleaved"):
        y = x.reshape(-1).copy()
        attention.rotate_heads(y, cosine[0], sine[0], layout == "half", 6)
        wanted = F.rotary(x[:, None], cosine, sine, layout)[0][:, 0]
        np.testing.assert_allclose(y.reshape(x.shape), wanted, rtol=1e-12)


class Blocks:
    """Two blocks with random weights, and their step as an equation."""

    def __init__(self, rng, H, G, D, width, V, gated, options):
        C, L, KV = H * D + 1, 2, G * D                # heads need not be as wide as the model
        self.H, self.G, self.D, self.C, self.width, self.gated = H, G, D, C, width, gated
        self.V, self.L = V, L
        shapes = dict(
            norm1_weight=(C,), norm1_bias=(C,), query=(C, H * D), query_bias=(H * D,), key=(C, KV),
            key_bias=(KV,), value=(C, KV), value_bias=(KV,), query_norm_weight=(D,),
            key_norm_weight=(D,), output=(H * D, C), output_bias=(C,), norm2_weight=(C,),
            norm2_bias=(C,), gate=(C, width), gate_bias=(width,), hidden=(C, width),
            hidden_bias=(width,), down=(width, C), down_bias=(C,))
        self.blocks = [{name: rng.standard_normal(shape) for name, shape in shapes.items()}
                       for _ in range(L)]
        self.final = [rng.standard_normal(C), rng.standard_normal(C), rng.standard_normal((V, C))]
        for w in self.blocks:
            w.update(dict.fromkeys(name for name in shapes if self.is_absent(name, options)))
        if not options.get("norm_biases"):
            self.final[1] = None
        self.slopes = rng.random(H) if options.get("slopes") else None
        self.epsilons = 0.1 + rng.random((L, 4))
        self.centred, self.inside, self.halves = (
            options.get(name, name == "inside") for name in ("centred", "inside", "halves"))
        self.rotary = options.get("rotary") and D % 2 == 0          # an odd width has no pairs

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
        """(heads, T, D), normalized and rotated."""
        x = x.reshape(len(x), -1, self.D).transpose(1, 0, 2)
        x = x if weight is None else F.rms_norm(x, weight, epsilon)[0]
        layout = "half" if self.halves else "interleaved"
        return F.rotary(x, *F.rotary_angles(0, x.shape[1], self.D), layout)[0] if self.rotary else x

    def expected(self, x):
        """(logits (T, V), keys and values of each block) of one text, from the reference."""
        h, kept = x, []
        for w, epsilons in zip(self.blocks, self.epsilons):
            a = self.norm(h, w["norm1_weight"], w["norm1_bias"], epsilons[0])
            q = self.heads_of(affine(a, w, "query"), w["query_norm_weight"], epsilons[2])
            k = self.heads_of(affine(a, w, "key"), w["key_norm_weight"], epsilons[3])
            v = affine(a, w, "value").reshape(len(x), -1, self.D).transpose(1, 0, 2)
            kept.append((k, v))
            o = np.empty((len(x), self.H, self.D))
            for t in range(len(x)):
                for n in range(self.H):
                    g = n * self.G // self.H
                    o[t, n] = attention_of(q[n, t], k[g, :t + 1], v[g, :t + 1],
                                           0 if self.slopes is None else self.slopes[n])[0]
            h = h + affine(o.reshape(len(x), -1), w, "output")
            a = self.norm(h, w["norm2_weight"], w["norm2_bias"], epsilons[1])
            u = affine(a, w, "hidden")
            f = F.silu(affine(a, w, "gate"))[0] * u if self.gated else F.silu(u)[0]
            h = h + affine(f, w, "down")
        weight, bias, head = self.final
        return self.norm(h, weight, bias, 0.2) @ head.T, kept

    def model(self):
        def packed(w, *names):
            return w[names[0]] is not None and panels.Panels(
                [w[name] for name in names], [w[f"{name}_bias"] for name in names]) or None

        self.packed = [[
            packed(w, *("query", "key", "value")) if name == "heads" else
            packed(w, name) if name in table.PRODUCTS else w[name] for name in table.NAMES]
            for w in self.blocks]
        self.head = [*self.final[:2], panels.Panels([self.final[2].T], [None])]
        return run.Model(
            np.array([table.addresses(parts) for parts in self.packed]),
            np.array(table.addresses(self.head, table.FINAL)), self.epsilons, 0.2, self.C,
            self.width, self.V, self.H, self.G, self.D, panels.SAME, 8, self.centred, self.inside,
            self.halves, "silu", self.slopes)


def affine(x, w, name):
    return x @ w[name] + (0 if w[f"{name}_bias"] is None else w[f"{name}_bias"])


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("H, G, D, width, V", [
    (3, 1, 2, 2, 5), (3, 3, 2, 1, 1), (6, 2, 2, 11, 9), (1, 1, 1, 1, 2), (2, 2, 5, 3, 4)])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("options", [
    dict(), dict(centred=True, norm_biases=True, biases=True), dict(inside=False),
    dict(norms=True, slopes=True), dict(rotary=True),
    dict(rotary=True, halves=True, norms=True, biases=True)], ids=str)
def test_steps_of_texts_of_any_lengths_follow_their_equation(
        tasks, H, G, D, width, V, gated, options, rng):
    """Four texts that grow by different numbers of tokens, in one call and in several."""
    blocks = Blocks(rng, H, G, D, width, V, gated, options)
    model = blocks.model()
    lengths, steps = np.array([9, 1, 12, 5]), [[3, 1, 10, 1], [1, 0, 1, 4], [5, 0, 1, 0]]
    xs = [rng.standard_normal((length, blocks.C)) for length in lengths]
    wanted = [blocks.expected(x) for x in xs]
    stored = np.full((4, 3, *run.page_shape(blocks.L, G, D, np.dtype(float))), np.nan)
    pages = np.array([[page.ctypes.data for page in text] for text in stored])
    angles = F.rotary_angles(0, 16, D) if blocks.rotary else None
    done = np.zeros(4, int)
    for new in map(np.array, steps):
        some = np.flatnonzero(new)
        ends = np.cumsum(new)
        texts = np.stack([ends - new, ends, done], axis=1)[some]
        x = np.concatenate([xs[b][done[b]:done[b] + new[b]] for b in some])
        picked = np.flatnonzero(rng.random(len(x)) < 0.6)
        finished = []
        logits = run.run_token_step(
            x, picked, texts, pages[some], model, angles, tasks,
            lambda work, tasks: finished.extend(work(task) for task in tasks))
        assert finished == [True] * tasks * -(-len(x) // run.MOST_TOKENS)
        expected = np.concatenate([wanted[b][0][done[b]:done[b] + new[b]] for b in some])
        np.testing.assert_allclose(logits, expected[picked], rtol=1e-9, atol=1e-10)
        done += new
    for b, length in enumerate(lengths):
        kept = stored[b].reshape(3, blocks.L, 2, G, -1)
        for layer, (k, v) in enumerate(wanted[b][1]):
            for position in range(length):
                page, n = divmod(position, WIDTH)
                found = kept[page, layer, 0].reshape(G, D, WIDTH)[:, :, n]
                np.testing.assert_allclose(found, k[:, position], rtol=1e-9, atol=1e-10)
                found = kept[page, layer, 1].reshape(G, WIDTH, D)[:, n]
                np.testing.assert_allclose(found, v[:, position], rtol=1e-9, atol=1e-10)


def test_packing_equals_the_reference(rng):
    for weights in ("bfloat16", "int8"):
        for shape in ((1, 1), (3, 2), (5, 9)):
            weight = rng.standard_normal(shape)
            weight[:, 0] *= 1e-320
            weight[0, -1] = 1 + 2.0 ** -8                           # halfway: to the even one
            packed = panels.Panels([weight], [None], weights)
            K, F_ = shape
            codes = packed.numbers.transpose(1, 0, 2).reshape(K, -1)[:, :F_]
            if weights == "int8":
                wanted, scale = F.to_int8(weight)
                assert np.array_equal(packed.scale[:F_], scale)
            else:
                wanted = F.to_bfloat16(weight)
            assert np.array_equal(codes, wanted)
    for wrong in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="NaN or Inf"):
            panels.Panels([np.array([[1.0, wrong], [2.0, 3.0]])], [None], "int8")
        with pytest.raises(ValueError, match="NaN or Inf"):
            panels.Panels([np.array([[1.0, 2.0], [wrong, 3.0]])], [None], "int8")
