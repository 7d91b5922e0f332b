"""The benchmarks at toy sizes: what they report, and that both sides compute the same."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from command import call, last_json
from numformer import backend, functional
from numformer.benchmarks import breakdown, speedrun, training
from numformer.data import Corpus
from numformer.recipes import TASKS, Preset
from numformer.models import LLAMA, Decoder, DecoderConfig
from numformer.plots import growth_of_time

HAS_TORCH, HAS_JAX = (find_spec(name) is not None for name in ("torch", "jax"))


@pytest.mark.slow
def test_bench_train(capsys, tmp_path):
    picture = tmp_path / "breakdown.png"
    status, out, _ = call(capsys, "bench", "train", "--case", "1x2x8:4x6:70", "--seconds", 0,
                          "--no-compile", "--breakdown", picture, "--json")
    row, = last_json(out)["cases"]
    assert status == 0 and row["case"] == "1x2x8:4x6:70" and row["case"] in out
    assert row["step_ms"] > 0 and row["quartiles_ms"][0] <= row["step_ms"] <= row["quartiles_ms"][1]
    assert row["of_sgemm"] == pytest.approx(training.Case.parse(row["case"]).flops / row["step_ms"]
                                            / row["sgemm_gflops"] / 1e6)
    assert row["tokens_per_second"] == pytest.approx(24000 / row["step_ms"])
    assert row["memory_gbytes"] > 0 and row["processor"] and row["blas"] == backend.blas_label()
    for side, here in (("torch", HAS_TORCH), ("jax", HAS_JAX), ("torch_compiled", False)):
        for key in (f"{side}_step_ms", f"{side}_cpu_ms", f"of_{side}", f"cpu_of_{side}"):
            assert (row[key] is None) != here, key
        if here:
            assert row[f"of_{side}"] == pytest.approx(row["step_ms"] / row[f"{side}_step_ms"])
            assert row[f"cpu_of_{side}"] == pytest.approx(row["cpu_ms"] / row[f"{side}_cpu_ms"])
    lines = [line for line in out.split("\n") if line.startswith("  ")]
    assert len(lines) == 1 + HAS_TORCH + HAS_JAX and lines[0].endswith(row["blas"])
    times = row["breakdown_ms"]
    assert {"linear", "linear_backward_accumulate", "feed_forward", "layer_norm",
            "feed_forward_backward_accumulate", "linear_cross_entropy", "head_projections",
            "scaled_dot_product_attention", "adam_step", "rest"} <= set(times)
    assert times["feed_forward"] > 0 and sum(times.values()) > 0 and picture.stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux")
def test_peak_memory_is_that_of_model_optimizer_and_step():
    """Weights, gradients and two moments, in float32."""
    peak = training.peak_bytes(training.Case.parse("1x2x8:1x4:400000"), "ours")
    assert 16 * 8 * 400_000 < peak < 20 * 16 * 8 * 400_000
    assert training.peak_bytes(training.Case.parse("1x2x8:1x4"), "unknown") is None


def test_time_is_counted_for_the_innermost_function(monkeypatch):
    """Time of other code counts for the function that calls it, or for the rest; the profiler's own
    time does not count. The clock goes on by one when it is read, and by what work needs."""
    now = [0.0]

    def clock():
        now[0] += 1
        return now[0]

    class Slow(np.ndarray):
        def __matmul__(self, other):
            now[0] += 1000
            return np.asarray(self) @ other

        def reshape(self, *shape):
            return super().reshape(*shape).view(Slow)

    def slow_check(*given):
        now[0] += 500

    monkeypatch.setattr(sys.modules["numformer.functional.linear"], "check_linear", slow_check)
    x, weight = np.ones((2, 3)), np.ones((3, 4))

    def work():
        _, saved = functional.linear(x, weight)
        now[0] += 100
        functional.linear_backward_accumulate(np.ones((2, 4)).view(Slow), saved, weight.copy())

    times = breakdown.times_by_name(work, clock)
    assert sum(times.values()) == pytest.approx(1601)
    assert times["linear"] == pytest.approx(500, abs=20)
    assert times["linear_backward"] == pytest.approx(1000, abs=20)
    assert abs(times["linear_backward_accumulate"]) < 20
    assert times["rest"] == pytest.approx(100, abs=40)


def test_flops_of_a_step():
    """6 per weight and token; attention has two products forward and four backward."""
    case = training.Case.parse("2x2x4:3x5")
    weights = 2 * (4 * 4 * 4 + 2 * 4 * 16) + 65 * 4
    pairs = 5 * 6 / 2
    assert case.flops == 3 * (6 * weights * 5 + 2 * 6 * 2 * 4 * pairs)
    larger = training.Case.parse("2x2x4:3x5:1065")
    assert larger.flops == case.flops + 3 * 6 * 1000 * 4 * 5
    assert larger.model().config.vocab_size == 1065


@pytest.mark.slow
def test_growth_is_drawn(capsys, tmp_path, monkeypatch):
    times = {size: {1: 2.0, 2: 4.0, 4: 8.0, 8: 16.0} for size in "BTCL"}
    monkeypatch.setattr(training, "growth", lambda: times)
    picture = tmp_path / "growth.png"
    _, out, _ = call(capsys, "bench", "train", "--case", "1x1x4:1x4", "--seconds", 0,
                     "--no-compile", "--no-memory", "--growth", picture, "--json")
    assert picture.stat().st_size > 10_000
    assert last_json(out)["growth_exponents"] == pytest.approx(dict.fromkeys("BTCL", 1.0))
    axes = growth_of_time(times, dict.fromkeys("BTCL", 1.0))
    assert [line.get_label() for line in axes.lines] == [f"{word}: slope 1.00"
                                                         for word in ("batch B",
                                                                      "sequence length T",
                                                                      "width C", "layers L")]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    with pytest.raises(ValueError, match="growth is empty"):
        growth_of_time({}, {})


@pytest.mark.slow
def test_growth_is_measured(monkeypatch):
    monkeypatch.setattr(training, "in_turns", lambda sides,
                        seconds: {name: {"step": [0.001 * int(name)]} for name in sides})
    found = training.growth()
    assert set(found) == set("BTCL")
    assert all(training.slope(times) == pytest.approx(1.0) for times in found.values())


def test_bench_speedrun(capsys, monkeypatch, text):
    small = dict(context_length=8, n_layers=1, n_heads=1, d_model=8)
    presets = {"speedrun": Preset({**small, "ngrams": 2}, dict(steps=3, optimizer="muon"),
                                  TASKS["text"], "NGramDecoder", {"zero_branches": True}),
               "speedrun-long": Preset(small, dict(steps=4), TASKS["text"]),
               "nanogpt-cpu": Preset({**small, "bias": False}, dict(steps=5), TASKS["text"])}
    monkeypatch.setattr(speedrun, "PRESETS", presets)
    status, out, _ = call(capsys, "bench", "speedrun", "--data", text, "--json")
    found = last_json(out)
    assert status == 0 and len(found["speedrun"]["runs"]) == 5 and found["warm_up_seconds"] > 0
    assert found["speedrun"]["loss"] == np.median([loss
                                                   for loss, _ in found["speedrun"]["runs"]]) > 1
    assert (found["torch"] is None) == (not HAS_TORCH)
    if HAS_TORCH:
        assert found["of_torch"] == found["speedrun"]["seconds"] / found["torch"][1]


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
def test_the_recipe_is_the_same_on_both_sides(monkeypatch):
    """With the same weights, batches, schedule and weight decay, PyTorch ends at the same loss."""
    preset = dict(context_length=8, n_layers=2, n_heads=2, d_model=16, bias=False, init_std=0.2)
    monkeypatch.setattr(speedrun, "PRESETS",
                        {"nanogpt-cpu": Preset(preset,
                                               dict(steps=12, batch_size=4, learning_rate=1e-2,
                                                    warmup_steps=3), TASKS["text"])})
    words = np.random.default_rng(0).choice(["the ", "quick ", "fox ", "jumps "], 300)
    corpus = Corpus("words", "".join(words))
    ours, theirs = speedrun.run("nanogpt-cpu", corpus, 3)[0], speedrun.torch_run(corpus, 3)[0]
    assert ours == pytest.approx(theirs, abs=2e-4) and ours < 2.3


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("bias", [True, False])
def test_the_pytorch_decoder_has_the_same_logits(bias, rng):
    import torch

    from numformer.benchmarks.torch_decoder import torch_decoder

    model = Decoder(DecoderConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=8,
                                  bias=bias), rng)
    for parameter in model.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape, np.float32)
    ids, module = rng.integers(0, 9, (3, 8)), torch_decoder(model).eval()
    with torch.inference_mode():
        whole = module(torch.from_numpy(ids)).numpy()
        caches = module.new_caches(3, 8)
        parts = [module(torch.from_numpy(ids[:, a:b]), caches, a).numpy()
                 for a, b in ((0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8))]
    np.testing.assert_allclose(whole, model(ids), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), model(ids), rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not HAS_JAX, reason="JAX is not installed")
def test_the_step_in_jax_is_the_same(rng):
    """Loss, gradients, and a first step of AdamW after clipping: only their signs count in it."""
    import jax

    from numformer.benchmarks import jax_decoder

    config = DecoderConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=8,
                           bias=False)
    model = Decoder(config, rng)
    for parameter in model.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape, np.float32)
    ids, targets = rng.integers(0, 9, (2, 3, 8))
    loss, saved = model.loss((ids, targets))
    model.loss_backward(saved)
    before = {name: np.array(x) for name, x in jax_decoder.parameters_of(model).items()}
    found, gradients = jax.value_and_grad(jax_decoder.loss)(before, ids, targets, config)
    np.testing.assert_allclose(found, loss, rtol=1e-5)
    ours = dict(model.named_parameters())
    for name in ("embedding.weight", "positions.weight", "norm.weight"):
        np.testing.assert_allclose(gradients[name], ours[name].grad, rtol=1e-3, atol=1e-5)
    for name in ("attention.output", "feedforward.hidden", "norm2"):
        np.testing.assert_allclose(gradients[f"blocks.1.{name}"],
                                   ours[f"blocks.1.{name}.weight"].grad, rtol=1e-3, atol=1e-5)
    step = jax_decoder.training_step(config)
    (after, _, _, count), value = step(jax_decoder.new_state(model), ids, targets)
    assert count == 1 and value == pytest.approx(float(loss), rel=1e-5)
    large = np.abs(gradients["blocks.0.qkv"]) > 1e-4
    change = after["blocks.0.qkv"] - before["blocks.0.qkv"] * (1 - 1e-4 * 0.1)
    np.testing.assert_allclose(change[large], -1e-4 * np.sign(gradients["blocks.0.qkv"])[large],
                               rtol=0.02)
    with pytest.raises(ValueError, match="without biases"):
        jax_decoder.parameters_of(Decoder(DecoderConfig(
            vocab_size=9, context_length=8, n_layers=1, n_heads=1, d_model=8, bias=True), rng))


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
def test_the_pytorch_decoder_refuses_other_options(rng):
    from numformer.benchmarks.torch_decoder import torch_decoder

    config = DecoderConfig(**{**LLAMA, "vocab_size": 9, "context_length": 8}, n_layers=1, n_heads=1,
                           d_model=8)
    with pytest.raises(ValueError, match="norm, feedforward, positions, tied"):
        torch_decoder(Decoder(config, rng))


@pytest.mark.parametrize("arguments, words",
                         [(["train", "--case", "1x2:3x4"],
                           "must read LAYERSxHEADSxWIDTH:BATCHxLENGTH"),
                          (["train", "--case", "1x2x8:3x4:0"], "with :VOCABULARY or without"),
                          (["train", "--case", "1x2x8:3x4:"], "must read"),
                          (["train", "--breakdown", "a.txt"], "--breakdown a.txt must end in"),
                          (["train", "--case", "1x3x8:3x4"], "not divisible"),
                          (["train", "--case", "0x1x8:3x4"], "must read"),
                          (["generate", "--case", "1x2x8"],
                           "must read LAYERSxHEADSxWIDTH:SEQUENCES"),
                          (["generate", "--case", "1x2x8:0"], "must read"),
                          (["train", "--growth", "picture.txt"],
                           "--growth picture.txt must end in"),
                          (["train", "--seconds", "-1"], "--seconds=-1"),
                          (["speedrun", "--data", "nowhere.txt"], "nowhere.txt")])
def test_what_bench_refuses(capsys, arguments, words):
    status, out, err = call(capsys, "bench", *arguments)
    assert status in (1, 2) and words in err and "Traceback" not in err and not out
