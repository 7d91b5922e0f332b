"""The benchmark of generation at toy sizes: what it reports, and which peers it refuses."""

from importlib.util import find_spec

import numpy as np
import pytest

from command import call, last_json
from numformer.benchmarks import ctranslate2_decoder, generating
from numformer.benchmarks.cases import check_gpt2
from numformer.generation import generate_batch
from numformer.models import LLAMA, Decoder, DecoderConfig

HAS_TORCH, HAS_CTRANSLATE2 = (find_spec(name) is not None for name in ("torch", "ctranslate2"))
ctranslate2_only = pytest.mark.skipif(not HAS_CTRANSLATE2, reason="CTranslate2 is not installed")


@pytest.fixture
def no_transformers(monkeypatch):
    """Its import is slow and emits warnings."""
    monkeypatch.setattr(generating, "find_spec", lambda name: None if name == "transformers"
                        else find_spec(name))


@pytest.mark.parametrize("case", ["1x2x8:1", "1x2x8:3"])
def test_bench_generate(capsys, case, no_transformers):
    status, out, _ = call(capsys, "bench", "generate", "--case", case, "--seconds", 0, "--json")
    row, = last_json(out)["cases"]
    assert status == 0 and row["case"] == case and case in out
    assert row["tokens_per_second"] == pytest.approx(1000 / row["token_ms"])
    assert row["of_allowed"] > 0
    assert row["allowed"] == pytest.approx(1e9 * row["memory_gbytes"] / (4 * (12 * 64 + 65 * 8)))
    assert (row["torch_token_ms"] is None) == (row["times_torch"] is None) == (not HAS_TORCH)
    assert row["transformers_token_ms"] is None
    assert ((row["ctranslate2_token_ms"] is None) == (row["times_ctranslate2"] is None)
            == (not HAS_CTRANSLATE2))
    assert ("CTranslate2  speedup" in out) == HAS_CTRANSLATE2
    assert row["cpu_ms"] > 0 and "CPU time of a token" in out and row["float32_cpu_ms"] is None


@pytest.mark.parametrize("weights, size", [("bfloat16", 2), ("int8", 1)])
def test_bench_generate_compares_smaller_weights_with_float32_ones(weights, size, capsys,
                                                                   no_transformers):
    status, out, _ = call(capsys, "bench", "generate", "--case", "1x2x8:2", "--seconds", 0,
                          "--weights", weights, "--json")
    row, = last_json(out)["cases"]
    assert status == 0 and row["weights"] == weights and f"{weights} weights:" in out
    assert row["times_float32"] == pytest.approx(row["float32_token_ms"] / row["token_ms"])
    assert row["allowed"] == pytest.approx(1e9 * row["memory_gbytes"] / (size * (12 * 64 + 65 * 8)))


def test_bench_generate_names_what_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr(generating, "find_spec", lambda name: None)
    status, out, _ = call(capsys, "bench", "generate", "--case", "1x2x8:1", "--seconds", 0,
                          "--json")
    row, = last_json(out)["cases"]
    assert status == 0 and "not compared: PyTorch, transformers, CTranslate2\n" in out
    assert row["times_torch"] is row["times_transformers"] is row["times_ctranslate2"] is None
    monkeypatch.setattr(generating, "find_spec", lambda name: name != "torch" or None)
    assert generating.peers_here() == ["ctranslate2"]                 # transformers needs PyTorch


def decoder(rng, **options):
    """A small decoder with large weights, so that every part counts."""
    model = Decoder(DecoderConfig(**{**dict(vocab_size=9, context_length=40, n_layers=2, n_heads=2,
                                            d_model=8), **options}), rng)
    for parameter in model.parameters():
        parameter.data += 0.2 * rng.standard_normal(parameter.data.shape, np.float32)
    return model


@ctranslate2_only
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_ctranslate2_has_the_same_logits_and_writes_the_same_text(bias, threads, rng):
    model = decoder(rng, bias=bias)
    generator, ids = ctranslate2_decoder.new_generator(model, threads), rng.integers(0, 9, (3, 40))
    np.testing.assert_allclose(np.array(generator.forward_batch(ids.tolist())), model(ids),
                               rtol=1e-3, atol=1e-4)
    prompts = list(ids[:, :8])
    ours = np.stack(list(generate_batch(model, prompts, 32, temperature=0)), axis=1)
    theirs = generator.generate_batch([[str(i) for i in prompt] for prompt in prompts],
                                      max_length=32, end_token=[], include_prompt_in_result=False)
    np.testing.assert_array_equal([text.sequences_ids[0] for text in theirs], ours)


@ctranslate2_only
def test_ctranslate2_with_other_weights_or_another_activation_is_refused(rng):
    model = decoder(rng)
    generator = ctranslate2_decoder.new_generator(model, 1)
    for name, parameter in model.named_parameters():
        if name.endswith("key.bias"):                    # adds the same to all scores of a query
            continue
        before = parameter.data.copy()
        parameter.data *= 1.01
        with pytest.raises(ValueError, match="it computes something else"):
            ctranslate2_decoder.check_logits(generator, model)
        parameter.data[:] = before
    ctranslate2_decoder.check_logits(generator, model)
    exact = decoder(rng, feedforward="gelu")
    exact.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match="it computes something else"):
        ctranslate2_decoder.check_logits(generator, exact)
    model.norm.weight.data[0] = np.nan
    with pytest.raises(ValueError, match="by nan of their norm"):
        ctranslate2_decoder.check_logits(generator, model)


@ctranslate2_only
def test_ctranslate2_computes_in_int8_where_ours_does(monkeypatch):
    made, new_generator = [], ctranslate2_decoder.new_generator

    def recorded(*arguments):
        made.append(new_generator(*arguments))
        return made[-1]

    monkeypatch.setattr(ctranslate2_decoder, "new_generator", recorded)
    for weights in (None, "bfloat16", "int8"):
        generating.ctranslate2_side(generating.Case.parse("1x2x8:1"), weights)
    assert [generator.compute_type for generator in made] == ["float32", "float32", "int8_float32"]


@ctranslate2_only
@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_bench_generate_fails_in_one_line_if_ctranslate2_computes_something_else(
        kind, capsys, monkeypatch, no_transformers):
    monkeypatch.setitem(ctranslate2_decoder.MOST_ERROR, kind, 0.0)
    status, out, err = call(capsys, "bench", "generate", "--case", "1x2x8:1", "--seconds", 0,
                            "--weights", "int8")
    assert status == 1 and f"CTranslate2's logits in {kind} differ from numformer's" in err
    assert "CPU time" not in out


def test_decoders_with_other_options_are_refused(rng):
    check_gpt2("peer", decoder(rng, bias=False))
    with pytest.raises(ValueError, match="peer: .* norm, feedforward, positions, tied"):
        check_gpt2("peer", Decoder(DecoderConfig(**{**LLAMA, "vocab_size": 9, "context_length": 8},
                                                 n_layers=1, n_heads=1, d_model=8), rng))
