"""Golden vectors: what is written is read, and is what the functions compute."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numformer
from numformer import functional as F
from numformer.testing import __main__ as command
from numformer.testing import read_golden, write_golden
from numformer.testing.golden_layers import CASES
from numformer.testing.plugin import assert_matches  # noqa: F401
from numformer.testing.steps import optimizer_rules

PATHS = [str(Path(numformer.__file__).parents[1]), os.environ.get("PYTHONPATH")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, PATHS))}


@pytest.mark.parametrize("dtype, bound", [("float64", 1e-12), ("float32", 1e-12)])
def test_what_is_read_is_what_the_functions_compute(tmp_path, dtype, bound):
    path = tmp_path / "golden.npz"
    write_golden(path, ["layer_norm", "cross_entropy_backward", "soft_cap"], dtype=dtype)
    cases = read_golden(path)
    assert {case.name for case in cases} == {"layer_norm", "cross_entropy", "soft_cap"}
    assert len(cases) >= 6
    for case in cases:
        arrays = [x for x in case.arguments.values() if isinstance(x, np.ndarray)]
        assert {x.dtype for x in arrays if x.dtype.kind == "f"} == {np.dtype(dtype)}
        exact = [np.float64(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
                 for x in case.arguments.values()]
        y, saved = getattr(F, case.name)(*exact, **case.options)
        gradients = getattr(F, case.name + "_backward")(np.float64(case.dy), saved)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        given = [gradient for gradient in gradients if gradient is not None]
        np.testing.assert_allclose(case.y, y, rtol=bound)
        assert len(given) == len(case.gradients)
        for found, expected in zip(case.gradients.values(), given):
            np.testing.assert_allclose(found, expected, rtol=bound)


def test_the_same_seed_gives_the_same_numbers(tmp_path):
    for number, seed in enumerate((5, 5, 6)):
        write_golden(tmp_path / f"{number}.npz", ["softmax"], seed=seed)
    first, same, other = ([case.y for case in read_golden(tmp_path / f"{n}.npz")] for n in range(3))
    assert all(np.array_equal(a, b) for a, b in zip(first, same))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other))


def test_the_file_needs_nothing_but_numpy(tmp_path):
    write_golden(tmp_path / "g.npz", ["linear"], seed=1)
    with np.load(tmp_path / "g.npz", allow_pickle=False) as stored:
        index = json.loads(bytes(stored["index"]))
        np.testing.assert_allclose(
            stored["0.x"] @ stored["0.weight"] + stored["0.bias"], stored["0.y"])
    assert index["seed"] == 1 and index["cases"][0]["name"] == "linear"


@pytest.mark.slow
def test_nearly_everything_has_golden_vectors(tmp_path, capsys):
    command.main([str(tmp_path / "all.npz")])
    cases, out = read_golden(tmp_path / "all.npz"), capsys.readouterr().out
    n = out.count("left out: ")
    assert f"{len(cases)} cases in {tmp_path / 'all.npz'}, {n} left out" in out
    assert "left out: layer:attention, dropout: its option rng is a Generator\n" in out
    kinds = {kind: {case.name for case in cases if case.kind == kind}
             for kind in ("function", "layer", "model", "optimizer")}
    assert all(len(names) > least for names, least in zip(kinds.values(), (50, 120, 60, 3)))
    attention = {case.name for case in cases if isinstance(case.options.get("pattern"),
                                                           F.AttentionPattern)}
    assert "scaled_dot_product_attention" in attention


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_pattern_is_stored_with_its_rules_and_its_mask(tmp_path, dtype):
    path = tmp_path / "golden.npz"
    left_out = write_golden(path, ["scaled_dot_product_attention"], dtype=dtype)
    assert set(left_out) == {"scaled_dot_product_attention, a query without keys"}
    with np.load(path) as stored:
        index = json.loads(bytes(stored["index"]))["cases"]
        masks = {number: stored[f"{number}.pattern"] for number in range(len(index))
                 if f"{number}.pattern" in stored}
    rules = {key for entry in index for key in entry["options"].get("pattern", {"pattern": {}})
             ["pattern"]}
    assert {"causal", "window", "lengths"} <= rules
    for number, case in enumerate(read_golden(path)):
        options = {key: np.float64(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
                   for key, x in case.options.items()}
        y, _ = F.scaled_dot_product_attention(*map(np.float64, case.arguments.values()), **options)
        np.testing.assert_allclose(case.y, y, rtol=1e-12, atol=1e-15)
        if number in masks:
            T, S = case.arguments["q"].shape[-2], case.arguments["k"].shape[-2]
            assert (masks[number] == case.options["pattern"].dense(T, S)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["layer:lstm", "layer:attention, causal, grouped",
                                  "layer:pre-norm cross block", "model:decoder of LLaMA"])
def test_layers_and_models_with_their_weights(tmp_path, name, dtype):
    path = tmp_path / "golden.npz"
    assert write_golden(path, [name], dtype=dtype) == {}
    case, = read_golden(path)
    assert f"{case.kind}:{case.name}" == name and case.y.dtype == np.float64
    layer = CASES[case.kind][case.name].layer()
    layer.load_state_dict({key: np.float64(x) for key, x in case.parameters.items()})
    inputs = [np.float64(x) if x.dtype.kind == "f" else x for x in case.arguments.values()]
    y, saved = layer.forward(*inputs, **case.options)
    np.testing.assert_allclose(case.y, y, rtol=1e-12, atol=1e-14)
    layer.backward(np.float64(case.dy), saved)
    assert case.parameters.keys() == dict(layer.named_parameters()).keys()
    for key, parameter in layer.named_parameters():
        assert case.parameters[key].dtype == dtype
        np.testing.assert_allclose(case.gradients[f"d{key}"], parameter.grad, rtol=1e-10,
                                   atol=1e-13)
    floats = [key for key, x in case.arguments.items() if x.dtype.kind == "f"]
    assert {f"d{key}" for key in floats} <= case.gradients.keys()


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_steps_of_an_optimizer(tmp_path, name):
    write_golden(tmp_path / "golden.npz", [f"optimizer:{name}"])
    case, = read_golden(tmp_path / "golden.npz")
    assert case.options["max_norm"] == 2.0 and case.y is None
    state, p = {}, [case.parameters[str(k)] for k in range(len(case.parameters))]
    for step, rate in enumerate(case.arguments["learning_rates"]):
        g = [case.arguments[f"gradients.{k}"][step] for k in range(len(p))]
        p = optimizer_rules.moved(name, p, g, state, step + 1, rate, case.options, {})
        for k, x in enumerate(p):
            np.testing.assert_allclose(case.results[f"after.{k}"][step], x, rtol=1e-9)


def test_what_is_left_out_has_a_reason(tmp_path):
    with pytest.raises(ValueError, match="layer:dropout is left out: its option rng is a Gen"):
        write_golden(tmp_path / "golden.npz", ["layer:dropout"])
    with pytest.raises(ValueError, match="kind='tree'"):
        write_golden(tmp_path / "golden.npz", ["tree:oak"])
    with pytest.raises(ValueError, match="optimizer='lion'"):
        write_golden(tmp_path / "golden.npz", ["optimizer:lion"])


def test_a_file_of_the_first_version_is_read(tmp_path):
    index = {"format": "numformer golden vectors, version 1", "cases": [{
        "name": "relu", "level": "plain", "arguments": {"x": {"array": "x"}}, "options": {},
        "gradients": ["dx"]}]}
    one = np.ones(2)
    np.savez(tmp_path / "old.npz", index=np.frombuffer(json.dumps(index).encode(), np.uint8),
             **{f"0.{key}": one for key in ("x", "y", "dy", "dx")})
    case, = read_golden(tmp_path / "old.npz")
    assert case.kind == "function" and (case.gradients["dx"] == 1).all()


def test_what_is_no_golden_file_is_one_line(tmp_path):
    path = tmp_path / "g.npz"
    for content in (b"", b"PK\x03\x04" + b"x" * 50, b"\x93NUMPY", b"x" * 100):
        path.write_bytes(content)
        with pytest.raises(ValueError):
            read_golden(path)
    np.savez(path, index=np.frombuffer(b'{"format": "other"}', np.uint8))
    with pytest.raises(ValueError, match="another format"):
        read_golden(path)
    np.savez(path, x=np.zeros(3))
    with pytest.raises(ValueError, match="holds no golden vectors"):
        read_golden(path)


@pytest.mark.parametrize("words, message", [
    (["nothing"], "'nothing' is not a function"), (["softmax", "--seed", "-1"], "seed=-1")])
def test_a_wrong_command_is_one_line(tmp_path, words, message):
    with pytest.raises(SystemExit) as raised:
        command.main([str(tmp_path / "g.npz"), *words])
    assert message in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="dtype"):
        write_golden(tmp_path / "g.npz", ["softmax"], dtype="int")


def test_the_fixture_matches(assert_matches):  # noqa: F811
    assert_matches("softmax", lambda x: F.softmax(x)[0])
    with pytest.raises(AssertionError, match="seed=0"):
        assert_matches("softmax", lambda x: x)


@pytest.mark.slow
def test_the_plugin_gives_a_fixture_and_a_seed(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "def test_it(assert_matches):\n    assert_matches('softmax', lambda x: x)\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:numformer", "-p",
         "numformer.testing.plugin", "-p", "no:cacheprovider", "--numformer-seed", "7",
         str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT)
    assert "seed=7, dtype=float64" in ran.stdout and "1 failed" in ran.stdout, ran.stdout


def test_pytest_loads_the_plugin_without_numpy():
    """It does so at every start, also in projects that never use it."""
    code = "import sys, numformer.testing.plugin; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT).returncode == 0
