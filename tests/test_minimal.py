"""The GPT on one page: its gradients, its size, and that it trains and writes."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from numformer import minimal
from numformer.models import Decoder, DecoderConfig

PAGE = Path(minimal.__file__)
V, B, T = 7, 2, 4                                                     # T is below CONTEXT


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    for name, value in dict(CONTEXT=5, LAYERS=2, HEADS=2, WIDTH=4, BATCH=4).items():
        monkeypatch.setattr(minimal, name, value)


def parameters(rng):
    """Random parameters in float64: biases and norms, too, or a wrong gradient may go unnoticed."""
    p = minimal.initial_parameters(rng, V)
    return {name: [rng.normal(w.ndim == 1, 0.5, w.shape) for w in p[name]] for name in p}


def batch(rng):
    ids = rng.integers(V, size=(B, T + 1))
    ids[0, :2] = ids[1, 0]                                            # an id that occurs repeatedly
    return ids[:, :-1], ids[:, 1:]


def loss_of(p, inputs, targets):
    return minimal.cross_entropy(minimal.forward(p, inputs)[0], targets)[0]


def gradients_of(p, inputs, targets):
    logits, saved = minimal.forward(p, inputs)
    _, saved_loss = minimal.cross_entropy(logits, targets)
    return minimal.backward(minimal.cross_entropy_backward(saved_loss), saved)


def assert_close(actual, expected, name):
    """To 1e-12; the absolute tolerance is for gradients that are 0 in exact arithmetic: a bias of
    the keys adds the same number to all scores of a query, and softmax does not depend on it."""
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-15, err_msg=name)


def in_the_order_of_the_decoder(p):
    """The same arrays as those of a `Decoder`, which has one matrix each for q, k and v."""
    yield from (*p["embedding"], *p["positions"])
    for i in range(minimal.LAYERS):
        weight, bias = p[f"qkv.{i}"]
        yield from p[f"norm1.{i}"]
        for q_k_or_v in range(3):
            part = slice(q_k_or_v * minimal.WIDTH, (q_k_or_v + 1) * minimal.WIDTH)
            yield from (weight[:, part], bias[part])
        yield from (*p[f"output.{i}"], *p[f"norm2.{i}"], *p[f"mlp1.{i}"], *p[f"mlp2.{i}"])
    yield from p["norm"]


def test_loss_and_gradients_equal_those_of_the_full_model():
    rng = np.random.default_rng(0)
    p, (inputs, targets) = parameters(rng), batch(rng)
    decoder = Decoder(DecoderConfig(
        vocab_size=V, context_length=minimal.CONTEXT, n_layers=minimal.LAYERS,
        n_heads=minimal.HEADS, d_model=minimal.WIDTH, dtype="float64"), rng)
    theirs = list(decoder.named_parameters())
    for (name, parameter), mine in zip(theirs, in_the_order_of_the_decoder(p), strict=True):
        assert parameter.data.shape == mine.shape, name
        parameter.data[...] = mine

    expected, saved = decoder.loss((inputs, targets))
    decoder.loss_backward(saved)
    assert loss_of(p, inputs, targets) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(minimal.forward(p, inputs)[0], decoder(inputs), rtol=1e-11)
    g = gradients_of(p, inputs, targets)
    for (name, parameter), mine in zip(theirs, in_the_order_of_the_decoder(g), strict=True):
        assert_close(mine, parameter.grad, name)


def test_every_gradient_equals_the_complex_step():
    rng = np.random.default_rng(1)
    p, (inputs, targets) = parameters(rng), batch(rng)
    g = gradients_of(p, inputs, targets)
    assert g.keys() == p.keys()
    for name in p:
        for i, (w, dw) in enumerate(zip(p[name], g[name], strict=True)):
            expected = np.empty_like(w)
            for index in np.ndindex(w.shape):                         # d/dw = Im f(w + ih) / h
                z = w.astype(complex)
                z[index] += 1e-30j
                changed = [*p[name][:i], z, *p[name][i + 1:]]
                expected[index] = loss_of({**p, name: changed}, inputs, targets).imag / 1e-30
            assert_close(dw, expected, name)


def test_the_dtype_of_the_parameters_is_that_of_the_loss_and_the_gradients():
    rng = np.random.default_rng(2)
    p, (inputs, targets) = minimal.initial_parameters(rng, V), batch(rng)
    g = gradients_of(p, inputs, targets)
    assert loss_of(p, inputs, targets).dtype == np.float32
    assert {w.dtype for name in g for w in g[name]} == {np.dtype(np.float32)}


def test_a_logit_depends_on_no_later_character():
    rng = np.random.default_rng(3)
    p, (inputs, _) = parameters(rng), batch(rng)
    changed = inputs.copy()
    changed[:, -1] = (changed[:, -1] + 1) % V
    before, after = minimal.forward(p, inputs)[0], minimal.forward(p, changed)[0]
    np.testing.assert_array_equal(before[:, :-1], after[:, :-1])
    assert not np.allclose(before[:, -1], after[:, -1])


@pytest.mark.parametrize("dtype, size", [(np.float32, 1e20), (np.float64, 1e155)])
def test_the_slope_of_gelu_is_0_or_1_far_from_0(dtype, size):
    with np.errstate(over="ignore"):                 # of x^3
        _, saved = minimal.gelu(np.array([-size, size, -3e38, 3e38], dtype))
    assert minimal.gelu_backward(np.ones(4, dtype), saved).tolist() == [0, 1, 0, 1]


def test_large_scores_and_logits_do_not_overflow():
    np.testing.assert_array_equal(minimal.softmax(np.array([[1000.0, 0.0]])), [[1, 0]])
    logits = np.array([[[1000.0, 0.0]]])
    assert minimal.cross_entropy(logits, np.array([[1]]))[0] == 1000


def test_initial_matrices_have_the_page_s_deviation(monkeypatch):
    monkeypatch.setattr(minimal, "WIDTH", 64)
    p = minimal.initial_parameters(np.random.default_rng(6), 300)
    for name in ("embedding", "qkv.0", "mlp2.1"):
        assert abs(p[name][0].std() / minimal.INITIAL_STD - 1) < 0.02
        assert abs(p[name][0].mean()) < 0.02 * minimal.INITIAL_STD


def test_a_step_of_adamw_by_its_equations():
    """With bias correction of both means, and weight decay of matrices alone."""
    rng = np.random.default_rng(7)
    p = {"a": [rng.standard_normal((2, 3)), rng.standard_normal(3)]}
    mean, square = ({"a": [np.zeros_like(w) for w in p["a"]]} for _ in range(2))
    expected, m, v = [w.copy() for w in p["a"]], [0, 0], [0, 0]
    for t in (1, 2, 3):
        g = {"a": [1e-7 * rng.standard_normal(w.shape) for w in p["a"]]}     # so epsilon counts
        minimal.adamw(p, g, mean, square, t, 0.1)
        for i, dw in enumerate(g["a"]):
            m[i], v[i] = 0.9 * m[i] + 0.1 * dw, 0.99 * v[i] + 0.01 * dw * dw
            expected[i] = expected[i] * (1 - 0.1 * minimal.WEIGHT_DECAY * (1 - i))
            m_hat, v_hat = m[i] / (1 - 0.9 ** t), v[i] / (1 - 0.99 ** t)
            expected[i] = expected[i] - 0.1 * m_hat / (np.sqrt(v_hat) + 1e-8)
            np.testing.assert_allclose(p["a"][i], expected[i], rtol=1e-11)
            np.testing.assert_allclose(mean["a"][i], m[i], rtol=1e-11)
            np.testing.assert_allclose(square["a"][i], v[i], rtol=1e-11)


@pytest.mark.parametrize("length, most, steps", [(205, 1200, 205), (205, 130, 130)])
def test_training_takes_excerpts_of_the_text_and_the_rate_rises_and_falls(
        length, most, steps, monkeypatch, capsys):
    """At most 20 epochs, and at most STEPS; the loss is printed every 100 steps and at the end."""
    monkeypatch.setattr(minimal, "STEPS", most)
    rates, inputs, targets = [], [], []
    monkeypatch.setattr(minimal, "adamw", lambda p, g, mean, square, step, rate:
                        rates.append((step, rate)))
    forward, cross_entropy = minimal.forward, minimal.cross_entropy
    monkeypatch.setattr(minimal, "forward", lambda p, ids: inputs.append(ids) or forward(p, ids))
    monkeypatch.setattr(minimal, "cross_entropy", lambda logits, ids: targets.append(ids)
                        or cross_entropy(logits, ids))
    minimal.train(np.arange(length), length, np.random.default_rng(8))
    assert [step for step, _ in rates] == list(range(1, steps + 1))
    np.testing.assert_allclose([rate for _, rate in rates], [
        minimal.LEARNING_RATE * min(s / 50, (steps + 1 - s) / (steps + 1))
        for s in range(1, steps + 1)], rtol=1e-12)
    x, y = np.array(inputs), np.array(targets)                        # (steps, BATCH, CONTEXT)
    assert x.shape == y.shape == (steps, 4, 5)
    assert (np.diff(x) == 1).all() and np.array_equal(x + 1, y)
    assert x.min() == 0 and y.max() == length - 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == [
        f"step {step} of {steps}" for step in sorted({*range(100, steps, 100), steps})]


def test_samples_follow_the_softmax_of_the_logits_divided_by_the_temperature(monkeypatch):
    class Recorder:
        def choice(self, n, p):
            assert n == len(p)
            seen.append(p)
            return 1

    z, seen = np.array([0.0, 2.0, 1.0]), []
    monkeypatch.setattr(minimal, "forward", lambda p, ids: (np.tile(z, (1, ids.shape[1], 1)), None))
    assert minimal.generate(None, [0], 1, Recorder()) == [0, 1]
    minimal.generate(None, [0], 1, Recorder(), temperature=2)
    for p, temperature in zip(seen, (0.8, 2), strict=True):
        expected = np.exp(z / temperature)
        np.testing.assert_allclose(p, expected / expected.sum(), rtol=1e-12)


def test_the_page_has_at_most_300_lines_of_at_most_100_columns():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 100


def test_the_page_imports_numpy_and_the_standard_library_alone():
    modules = set()
    for node in ast.walk(ast.parse(PAGE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module.split(".")[0])
    assert "numpy" in modules
    assert modules - {"numpy"} <= sys.stdlib_module_names


@pytest.mark.slow
def test_training_lowers_the_loss_and_sampling_continues_the_prompt(monkeypatch, capsys):
    monkeypatch.setattr(minimal, "WIDTH", 16)
    text = "abcdef" * 200
    ids, rng = np.array([ord(c) - ord("a") for c in text]), np.random.default_rng(4)
    untrained = minimal.evaluate(minimal.initial_parameters(rng, 6), ids)
    p = minimal.train(ids, 6, rng)
    assert untrained > 1.5                                            # about ln 6
    assert minimal.evaluate(p, ids) < 0.5
    assert "loss" in capsys.readouterr().out
    sample = minimal.generate(p, [0], 12, rng)
    assert len(sample) == 13
    assert sample[0] == 0
    assert set(sample) <= set(range(6))


def test_the_validation_loss_is_the_mean_over_all_characters_but_the_first():
    rng = np.random.default_rng(5)
    for n in (1, 2):                                                  # blocks of 5, 5 and n targets
        p, ids = parameters(rng), rng.integers(V, size=11 + n)
        losses = [(5, loss_of(p, ids[None, :5], ids[None, 1:6])),
                  (5, loss_of(p, ids[None, 5:10], ids[None, 6:11])),
                  (n, loss_of(p, ids[None, 10:-1], ids[None, 11:]))]
        mean = sum(size * loss for size, loss in losses) / (10 + n)
        assert minimal.evaluate(p, ids) == pytest.approx(mean)


def run(*arguments):
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "numformer.minimal", *arguments], timeout=120,
                          capture_output=True, encoding="utf-8", env=environment)


def test_the_command_trains_on_a_short_text_and_writes_in_its_alphabet(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The quick brown fox jumps over the läzy dog.\n" * 5, encoding="utf-8")
    result = run(str(path))
    assert result.returncode == 0, result.stderr
    progress, sample = result.stdout.split(" nats per character\n")
    assert "validation loss" in progress
    assert len(sample) == 402                                         # the prompt, 400, a new line
    assert set(sample) <= set(path.read_text(encoding="utf-8"))


def test_a_text_that_is_too_short_gets_one_line(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("too short", encoding="utf-8")
    result = run(str(path))
    assert result.returncode == 1
    assert result.stderr == "the text has 9 characters; give one of at least 128\n"


def test_the_lesson_on_the_page_quotes_all_of_its_functions():
    path, = (PAGE.parents[1] / "notebooks").glob("22_*.ipynb")
    printed = "".join(line for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
                      for output in cell.get("outputs", []) for line in output.get("text", []))
    functions = [each for each in vars(minimal).values() if inspect.isfunction(each)]
    assert len(functions) > 15
    assert [each.__name__ for each in functions
            if inspect.getsource(each).rstrip() not in printed] == []


def test_pages_that_say_what_to_read_first_name_what_is_there():
    pages = {path: re.findall(r"`minimal\.(?!py`)(\w+)`", path.read_text())
             for path in Path(minimal.__file__).parent.rglob("*.py")}
    found = {path.stem if path.stem != "model" else path.parent.name: names
             for path, names in pages.items() if names}
    assert found.keys() >= {"multi_head", "block", "decoder", "trainer", "optimizers"}
    assert all(callable(getattr(minimal, name)) for names in found.values() for name in names)
