"""Folders that are not as they should be: one line each, nothing executed, nothing half-loaded;
shards, names of old files, and weights of fewer bits. No witness is needed."""

import json
import pickle
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from numformer.interop import FAMILIES, family_of, gradients, load, save
from numformer.files.tensors import widened
from numformer.models import (
    Decoder, DecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig)
from numformer.models.decoder.config import GPT2

SIZES = dict(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=8)
WEIGHTS = "model.safetensors"


def model_of(rng, options=GPT2, **more):
    model = Decoder(DecoderConfig(**{**options, **SIZES, **more}), rng)
    for parameter in model.parameters():
        parameter.data += rng.standard_normal(parameter.data.shape).astype(parameter.data.dtype)
    return model


@pytest.fixture
def folder(rng, tmp_path):
    save(model_of(rng), None, tmp_path / "model")
    return tmp_path / "model"


def facts_of(folder):
    return json.loads((folder / "config.json").read_text())


def change(folder, **keys):
    """Change keys of config.json; None leaves one out."""
    facts = {**facts_of(folder), **keys}
    (folder / "config.json").write_text(json.dumps(facts))


def rewrite(folder, function):
    """Change the dict of tensors."""
    tensors = load_file(folder / WEIGHTS)
    function(tensors)
    save_file(tensors, folder / WEIGHTS)


def same_arrays(a, b):
    one, other = a.state_dict(), b.state_dict()
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def refused(folder, words):
    with pytest.raises(ValueError, match=words) as found:
        load(folder)
    assert "\n" not in str(found.value) and len(str(found.value)) < 500


@pytest.mark.parametrize("keys, words", [
    ({"scale_attn_by_inverse_layer_idx": True}, "'scale_attn_by_inverse_layer_idx' = True must be"),
    ({"add_cross_attention": True}, "'add_cross_attention' = True must be False"),
    ({"activation_function": "mish"}, "'activation_function' = 'mish' must be 'gelu_new'"),
    ({"activation_function": ["relu"]}, "'activation_function' = "),
    ({"tie_word_embeddings": False}, "'tie_word_embeddings' = False must be True"),
    ({"n_head": 3}, "n_heads=3"), ({"n_head": "2"}, "n_heads='2' must be int"),
    ({"n_layer": 10**9}, "'n_layer' = 1000000000, but the tensors hold"),
    ({"n_layer": 2 * 10**5}, "n_layers=200000 must be a whole number, 1 to 131072"),
    ({"n_layer": 3}, "missing: transformer.h.2"), ({"n_layer": 1}, "unexpected: transformer.h.1"),
    ({"n_inner": 9}, r"has shape \(8, 32\), but must have \(8, 9\)"),
    ({"model_type": "gpt5"}, "model_type 'gpt5' is not known"),
    ({"model_type": ["gpt2"]}, "model_type .* is not known"),
    ({"architectures": ["GPT2ForSequenceClassification"]}, "'architectures' = .* must be one of"),
    ({"architectures": [["GPT2Model"]]}, "'architectures' = .* must be"),
    ({"architectures": "GPT2Model"}, "'architectures' = 'GPT2Model' must be"),
])
def test_a_config_that_is_not_ours_is_refused_by_name(folder, keys, words):
    change(folder, **keys)
    refused(folder, words)


def drop(name):
    return lambda tensors: tensors.pop(name)


@pytest.mark.parametrize("function, words", [
    (drop("transformer.wpe.weight"), "missing: transformer.wpe.weight; unexpected: none"),
    (lambda t: t.update({"score.weight": np.ones(3)}), "missing: none; unexpected: score.weight"),
    (lambda t: t.update({"transformer.wpe.weight": np.ones((9, 8), np.float32)}),
     r"transformer.wpe.weight has shape \(9, 8\), but must have \(8, 8\)"),
    (lambda t: t.update({"transformer.wpe.weight": np.ones((8, 8), np.int32)}),
     "transformer.wpe.weight is of dtype I32"),
    (lambda t: t.update({"lm_head.weight": np.ones((11, 8), np.float32)}),
     "lm_head.weight must equal transformer.wte.weight"),
])
def test_tensors_that_do_not_fit(folder, function, words):
    rewrite(folder, function)
    refused(folder, words)


@pytest.mark.parametrize("keep", [0, 4, 8, 60, 500, -1])
def test_a_truncated_file(folder, keep):
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:keep])
    refused(folder, "no file of safetensors, or was cut short")
    (folder / WEIGHTS).write_bytes(data + b"more")
    refused(folder, "bytes follow|follow the header")


@pytest.mark.parametrize("entry", [
    {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
    {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]},
    {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 8]},
    {"dtype": "F3", "shape": [1], "data_offsets": [0, 4]}, {"shape": [1]}, 3, None])
def test_a_malformed_header(folder, entry):
    text = json.dumps({"transformer.wte.weight": entry}).encode()
    (folder / WEIGHTS).write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    refused(folder, "no file of safetensors")


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def test_a_pickle_is_named_and_never_read(folder):
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    load(folder)                                      # next to weights that can be read
    (folder / WEIGHTS).unlink()
    refused(folder, "pytorch_model.bin, a pickle")
    (folder / "pytorch_model.bin").unlink()
    refused(folder, "has no model.safetensors")
    (folder / "config.json").unlink()
    refused(folder, "has no config.json")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"model_type": "gpt2", "model_type": "gpt2"}',
                                  '{"n_layer": NaN}', "[" * 100_000])
def test_a_config_that_is_no_json(folder, text):
    (folder / "config.json").write_text(text)
    refused(folder, "config.json is no config|config.json: model_type")


def shard(folder, change_map=lambda places: None):
    """Cut the weights into two files with an index."""
    tensors = load_file(folder / WEIGHTS)
    places, names = {}, sorted(tensors)
    for n, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{n:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        places |= dict.fromkeys(part, file)
    change_map(places)
    (folder / WEIGHTS).unlink()
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": places}))


def test_shards(folder):
    whole, _ = load(folder)
    shard(folder)
    assert same_arrays(load(folder)[0], whole)
    (folder / "model-00002-of-00002.safetensors").unlink()
    refused(folder, "names model-00002-of-00002.safetensors, which is not there")


@pytest.mark.parametrize("changed, words", [
    (lambda m: m.update({"transformer.wte.weight": "../x.safetensors"}), "no file of its own fold"),
    (lambda m: m.update({"transformer.wte.weight": "/x.safetensors"}), "no file of its own folder"),
    (lambda m: m.update({"transformer.wte.weight": 3}), "no index of safetensors"),
    (lambda m: m.pop("transformer.wte.weight"), "does not have it there"),
    (lambda m: m.update({"x": "model-00001-of-00002.safetensors"}), "which does not hold it")])
def test_an_index_that_does_not_fit(folder, changed, words):
    shard(folder, changed)
    refused(folder, words)


def test_names_of_published_files(folder):
    """The published GPT-2 has no prefix, and masks among its tensors."""
    whole, _ = load(folder)

    def as_published(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = np.tril(np.ones((1, 1, 8, 8), np.uint8))
        tensors["h.1.attn.masked_bias"] = np.array(-1e4, np.float32)

    rewrite(folder, as_published)
    assert same_arrays(load(folder)[0], whole)


def test_weights_of_fewer_bits_are_widened(folder):
    whole, _ = load(folder)
    rewrite(folder, lambda t: t.update({n: x.astype(np.float16) for n, x in t.items()}))
    half, _ = load(folder)
    assert half.config.dtype == "float32"
    for name, array in half.state_dict().items():
        wanted = whole.state_dict()[name].astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(array, wanted)
    assert load(folder, dtype="float64")[0].config.dtype == "float64"
    with pytest.raises(ValueError, match="dtype='float16' must be 'float32' or 'float64'"):
        load(folder, dtype="float16")


def test_bfloat16_is_widened_by_its_bits(folder, rng):
    """A file as other libraries write it: the upper half of every float32."""
    whole, _ = load(folder)
    rewrite(folder, lambda t: t.update({name: (array.view(np.uint32) >> 16).astype(np.uint16)
                                        for name, array in t.items()}))
    data = (folder / WEIGHTS).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8:8 + length].replace(b'"U16"', b'"BF16"')
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length:])
    found, _ = load(folder)
    for name, array in found.state_dict().items():
        upper = whole.state_dict()[name].view(np.uint32) & 0xffff0000
        np.testing.assert_array_equal(array.view(np.uint32), upper)
    bits = np.array([0x7f80, 0xff80, 0x8000, 0x0001], np.uint16)
    assert widened(bits)[:3].tolist() == [np.inf, -np.inf, 0] and 0 < widened(bits)[3] < 1e-38


def test_nothing_is_written_over(folder, rng):
    before = (folder / WEIGHTS).read_bytes()
    with pytest.raises(ValueError, match="has a config.json already; give a new folder"):
        save(model_of(rng), None, folder)
    assert (folder / WEIGHTS).read_bytes() == before


@pytest.mark.parametrize("options, words", [
    (dict(bias=False), "gpt2 is the nearest, but has no bias=False"),
    (dict(positions="alibi"), "has no positions='alibi'"),
    (dict(norm="rms_norm", feedforward="geglu"), "the nearest, but has no")])
def test_a_model_of_no_family_is_refused(rng, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        save(model_of(rng, **options), None, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_other_models_that_have_no_family(rng):
    other = RecurrentLanguageModel(RecurrentLanguageModelConfig(
        vocab_size=5, context_length=4, n_layers=1, d_model=4), rng)
    with pytest.raises(ValueError, match="a RecurrentLanguageModel is of no published family"):
        family_of(other)
    model = model_of(rng)
    with pytest.raises(ValueError, match="family='gpt9' is unknown"):
        family_of(model, "gpt9")
    with pytest.raises(ValueError, match="llama is the nearest"):
        gradients(model, "llama")
    model.blocks[1].norm1.epsilon, model.blocks[0] = 1e-5, model.blocks[1]
    with pytest.raises(ValueError, match="other layers than its config says"):
        family_of(model)


def test_every_family_has_a_row_for_every_parameter_once():
    """Parts of a tensor do not overlap, and cover it, but for rows that are not used."""
    from numformer.models import KINDS

    from witness_sizes import SMALL

    assert SMALL.keys() == FAMILIES.keys()
    for name, family in FAMILIES.items():
        config = KINDS[family.kind][1](**{**family.options, **SMALL[name]})
        assert family.differences(config) == {}, name
        parameters = dict(KINDS[family.kind][0](config, None).named_parameters())
        rows = list(family.rows(config))
        assert {row.ours for row in rows if not row.added} == parameters.keys()
        for part, parameter in parameters.items():
            indices = [row.index for row in rows if row.ours == part and not row.added]
            assert indices == [None] or indices == [*range(len(parameter.data))]
        for theirs in {row.theirs for row in rows}:
            parts = [row for row in rows if row.theirs == theirs]
            shape, = {row.shape(parameters[row.ours].data.shape) for row in parts}
            covered = np.zeros(shape)
            for row in parts:
                one = np.zeros(shape)
                row.gradient(np.ones(parameters[row.ours].data.shape), one)
                covered += one != 0
            assert covered.max() == 1 and re.search("position|wpe", theirs) or covered.min() == 1
