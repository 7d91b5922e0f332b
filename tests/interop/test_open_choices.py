"""What a folder leaves open is decided as transformers decides it, or refused in one line."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from numformer.interop import FAMILIES, load, save
from numformer.models.decoder.config import GPT2, LLAMA
from test_bookkeeping_keys import random_folder
from test_folders import change, facts_of, model_of, refused, rewrite, same_arrays
from witness_sizes import SMALL

WEIGHTS = "model.safetensors"
IDS = np.array([[1, 2, 3, 4]])


def logits_of_transformers(folder):
    torch = pytest.importorskip("torch", reason="the witness is not installed")
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(torch.tensor(IDS)).logits.numpy()


def agree(folder):
    expected, found = logits_of_transformers(folder), load(folder)[0](IDS)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore")
def test_one_file_and_an_index_of_others(rng, tmp_path):
    """A folder that was saved in shards once and again as one file; or whose shards are gone."""
    save(model_of(rng), None, tmp_path / "model")
    new, _ = load(tmp_path / "model")
    tensors = load_file(tmp_path / "model" / WEIGHTS)
    shard = "model-00001-of-00001.safetensors"
    save_file({name: 0 * array for name, array in tensors.items()}, tmp_path / "model" / shard)
    index = {"weight_map": dict.fromkeys(tensors, shard)}
    (tmp_path / "model" / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    assert same_arrays(load(tmp_path / "model")[0], new)
    agree(tmp_path / "model")
    (tmp_path / "model" / shard).unlink()
    assert same_arrays(load(tmp_path / "model")[0], new)


def test_weights_of_both_formats_and_a_pickle_alone(rng, tmp_path):
    torch = pytest.importorskip("torch", reason="the witness is not installed")
    model = model_of(rng)
    save(model, None, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / WEIGHTS)
    torch.save({name: torch.zeros(array.shape) for name, array in tensors.items()},
               tmp_path / "model" / "pytorch_model.bin")
    assert same_arrays(load(tmp_path / "model")[0], model)
    agree(tmp_path / "model")
    (tmp_path / "model" / WEIGHTS).unlink()
    refused(tmp_path / "model", "pytorch_model.bin, a pickle, .* convert it there: python -c ")


@pytest.mark.slow
def test_the_line_that_converts_converts(rng, tmp_path):
    import shlex
    import subprocess
    import sys

    torch = pytest.importorskip("torch", reason="the witness is not installed")
    model = model_of(rng)
    save(model, None, tmp_path / "model")
    tensors = {name: torch.tensor(array)
               for name, array in load_file(tmp_path / "model" / WEIGHTS).items()}
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"]     # one tensor, two names
    names = sorted(tensors)
    for n in (1, 2):                                  # in shards
        torch.save({name: tensors[name] for name in names[n - 1::2]},
                   tmp_path / "model" / f"pytorch_model-0000{n}-of-00002.bin")
    (tmp_path / "model" / WEIGHTS).unlink()
    with pytest.raises(ValueError) as found:
        load(tmp_path / "model")
    _, *words = shlex.split(str(found.value).partition("there: ")[2])
    subprocess.run([sys.executable, *words], cwd=tmp_path / "model", check=True)
    assert same_arrays(load(tmp_path / "model")[0], model)


TIED = [name for name, family in FAMILIES.items() if family.copies]


@pytest.mark.parametrize("name", TIED)
def test_a_tied_tensor_under_its_other_name(name, rng, tmp_path):
    """`safetensors.torch.save_model` keeps the first name of the alphabet alone."""
    family = FAMILIES[name]
    model = random_folder(name, rng, tmp_path / "model")
    held, copies = load_file(tmp_path / "model" / WEIGHTS), family.copies_of(model.config)
    for copy, first in copies.items():
        if first in held:                             # or itself a copy of another one
            kept = dict(held)
            kept[copy] = kept.pop(first)
            save_file(kept, tmp_path / "model" / WEIGHTS, {first: copy, "format": "pt"})
            assert same_arrays(load(tmp_path / "model")[0], model), copy
    tied = family.options.get("tied", SMALL[name].get("tied", True))
    assert copies or not tied


def test_a_tied_tensor_under_its_other_name_is_what_transformers_reads(rng, tmp_path):
    save(model_of(rng), None, tmp_path / "model")
    rewrite(tmp_path / "model",
            lambda t: t.update({"lm_head.weight": t.pop("transformer.wte.weight")}))
    agree(tmp_path / "model")


LINEAR, PLAIN = {"rope_type": "linear", "factor": 2.0}, {"rope_type": "default"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keys", [
    dict(rope_scaling=LINEAR, rope_parameters=PLAIN),
    dict(rope_scaling=PLAIN, rope_parameters=LINEAR),
    dict(rope_scaling=None, rope_parameters=LINEAR),
    dict(rope_scaling={}, rope_parameters={**LINEAR, "rope_theta": 20.0}),
    dict(rope_theta=30.0, rope_parameters={**PLAIN, "rope_theta": 20.0}),
    dict(rope_theta=30.0, rope_parameters=PLAIN), dict(rope_theta=30.0, rope_scaling=LINEAR),
    dict(rope_theta=30.0, rope_scaling={**LINEAR, "rope_theta": 20.0}, rope_parameters=PLAIN)])
def test_rotary_positions_in_two_places(keys, rng, tmp_path):
    save(model_of(rng, LLAMA), None, tmp_path / "model", "llama")
    facts = facts_of(tmp_path / "model")
    facts.pop("rope_theta")
    (tmp_path / "model" / "config.json").write_text(json.dumps(facts | keys))
    agree(tmp_path / "model")


def test_a_tokenizer_of_one_file_and_of_two(tmp_path, rng):
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")
    from numformer.data import BytePairTokenizer, load_tokenizer, save_tokenizer

    text = "the quick brown fox jumps over the lazy dog\n" * 20
    own = BytePairTokenizer.of(text, 20, ("<|endoftext|>",), split="gpt2", order="gpt2")
    save(model_of(rng, GPT2, vocab_size=len(own)), own, tmp_path / "model", "gpt2")
    older = BytePairTokenizer.of(text[::-1], 20, ("<|endoftext|>",), split="gpt2", order="gpt2")
    save_tokenizer(older, tmp_path)
    facts = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    (tmp_path / "model" / "vocab.json").write_text(json.dumps(facts["vocab"]))
    (tmp_path / "model" / "merges.txt").write_text(
        "#version: 0.2\n" + "".join(f"{' '.join(pair)}\n" for pair in facts["merges"]))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    found = load_tokenizer(tmp_path / "model").encode(text[:80]).tolist()
    assert found == theirs(text[:80])["input_ids"] == own.encode(text[:80]).tolist()
    assert found != older.encode(text[:80]).tolist()


# Old names and tensors that are no parameters, as published files hold them
BUFFERS = {
    "gpt2": ["h.0.attn.bias", "h.1.attn.masked_bias"], "openai-gpt": ["h.0.attn.bias"],
    "llama": ["model.layers.0.self_attn.rotary_emb.inv_freq"],
    "gpt_neox": ["gpt_neox.layers.0.attention.bias", "gpt_neox.layers.1.attention.masked_bias",
                 "gpt_neox.layers.0.attention.rotary_emb.inv_freq"],
    "bert": ["bert.embeddings.position_ids"], "roberta": ["roberta.embeddings.position_ids"],
    "distilbert": ["distilbert.embeddings.position_ids"],
    "sentence-bert": ["embeddings.position_ids"],
    "t5": ["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"],
    "clip": ["text_model.embeddings.position_ids", "vision_model.embeddings.position_ids"]}


@pytest.mark.parametrize("name", BUFFERS)
def test_buffers_of_published_files(name, rng, tmp_path):
    model = random_folder(name, rng, tmp_path / "model")
    rewrite(tmp_path / "model", lambda tensors: tensors.update(
        {buffer: np.ones((1, 3), np.float32) for buffer in BUFFERS[name]}))
    assert same_arrays(load(tmp_path / "model")[0], model)


@pytest.mark.parametrize("name", [name for name in FAMILIES if "bert" in name])
def test_gamma_and_beta(name, rng, tmp_path):
    model, n = random_folder(name, rng, tmp_path / "model"), 0

    def old(tensors):
        nonlocal n
        for part in list(tensors):
            head, _, last = part.rpartition("LayerNorm.")
            if head:
                n += 1
                tensors[f"{head}LayerNorm.{dict(weight='gamma', bias='beta')[last]}"] = (
                    tensors.pop(part))

    rewrite(tmp_path / "model", old)
    assert same_arrays(load(tmp_path / "model")[0], model) and (n or "modern" in name)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "bloom", "bart"])
def test_files_of_a_model_without_its_head_have_no_prefix(name, rng, tmp_path):
    model = random_folder(name, rng, tmp_path / "model")
    prefix = FAMILIES[name].prefix
    if not getattr(model.config, "tied", True):
        pytest.skip("a head of its own is not left out")

    def bare(tensors):
        for part in list(tensors):
            array = tensors.pop(part)
            if part not in FAMILIES[name].zeros:
                tensors[part.removeprefix(prefix)] = array

    rewrite(tmp_path / "model", bare)
    change(tmp_path / "model", architectures=[FAMILIES[name].architectures[-1]])
    assert same_arrays(load(tmp_path / "model")[0], model)
