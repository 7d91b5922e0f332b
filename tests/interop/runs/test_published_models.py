"""Published files whole, from the folder to the verbs and back: transformers is the witness.

Weights are random, and sizes small; keys are the published ones.
"""

import json

import numpy as np
import pytest

from command import call, last_json
from numformer.data import BytePairTokenizer, UnigramTokenizer, WordPieceTokenizer
from numformer.data.tokenizers.published import published, save_tokenizer
from numformer.data.tokenizers.published.pipeline import PublishedTokenizer
from marks import quick_among
from numformer.interop import FAMILIES
from published_models import (
    ALL, DECODERS, ENCODER_DECODERS, ENCODERS, UNDECLARED, small)

torch = pytest.importorskip("torch", reason="the witness, PyTorch, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXT = "the quick brown fox jumps over the lazy dog, and\nthe dog sleeps on.\n" * 60
PROMPT = "the dog jumps"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{{ eos_token }}{% endfor %}"


@pytest.mark.parametrize("name", ALL)
def test_every_key_of_a_published_file_is_read_or_known_to_be_none_of_ours(name):
    """At its published size; two of them have keys that their class does not declare."""
    facts = ALL[name]
    family = next(family for family in FAMILIES.values()
                  if family.model_type == facts["model_type"]
                  and facts["architectures"][0] in family.architectures)
    config = family.config(facts, ("lm_head.weight", "embed_out.weight"), "float32")
    assert config.n_layers >= 6 and config.vocab_size == facts["vocab_size"]
    assert family.others(facts) == UNDECLARED.get(name, [])


def test_there_are_enough_of_them():
    assert len(ALL) >= 40 and len({facts["model_type"] for facts in ALL.values()}) >= 24


def byte_pairs(bos):
    """Byte pairs, with BOS before a text if the published tokenizer has it there."""
    facts = published(BytePairTokenizer.of(TEXT, 40, ("<s>", "</s>"), split="gpt2", order="gpt2")
                      ).description
    if bos:
        number = facts["model"]["vocab"]["<s>"]
        start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
        first, second = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
        facts = facts | {"post_processor": {
            "type": "TemplateProcessing", "single": [start, first],
            "pair": [start, first, second], "special_tokens": {
                "<s>": {"id": "<s>", "ids": [number], "tokens": ["<s>"]}}}}
    return PublishedTokenizer(facts)


def random_folder(path, kind, facts, seed=0):
    """A model of transformers with the random weights of a config.json, which is written as it is:
    what transformers would write is another."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(facts, indent=2))
    theirs = kind.from_config(transformers.AutoConfig.from_pretrained(path), dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part, parameter in theirs.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_norm = parameter.ndim == 1 and part.endswith("weight")
            parameter.copy_(0.4 * noise + (1.0 if is_norm else 0.0))
    theirs.eval().save_pretrained(path)
    (path / "config.json").write_text(json.dumps(facts, indent=2))
    (path / "generation_config.json").unlink(missing_ok=True)
    return theirs


def files_are_back(folder, out):
    """All keys and values are as they were, but the dtype, the head that is written, and the names
    of files with code, which do not travel."""
    for name in ("generation_config.json", "tokenizer_config.json"):
        assert (folder / name).exists() == (out / name).exists()
        if (folder / name).exists():
            one, two = (json.loads((place / name).read_text()) for place in (folder, out))
            assert one == two
    one, two = (json.loads((place / "config.json").read_text()) for place in (folder, out))
    for facts in (one, two):
        for key in ("torch_dtype", "dtype", "architectures", "auto_map"):
            facts.pop(key, None)
    assert one == two


@pytest.mark.parametrize("name", quick_among(
    DECODERS, ["SmolLM2-135M-Instruct", "gemma-3-1b-it"]))
def test_a_decoder_from_its_folder_to_a_text_that_ends_and_back(name, tmp_path, capsys,
                                                                monkeypatch):
    monkeypatch.chdir(tmp_path)
    facts, generation, bos = DECODERS[name]
    tokenizer, folder = byte_pairs(bos), tmp_path / "published"
    ids = {f"{part}_token_id": tokenizer.special_id(token)
           for part, token in (("bos", "<s>"), ("eos", "</s>"), ("pad", "</s>"))}
    facts = small(facts, vocab_size=len(tokenizer), **ids)
    theirs = random_folder(folder, transformers.AutoModelForCausalLM, facts)
    save_tokenizer(tokenizer, folder)
    # A token of its text ends it, so that there is an end
    start = torch.tensor(tokenizer.prompt_ids(PROMPT))[None]
    theirs.generation_config.eos_token_id = None
    free = theirs.generate(start, do_sample=False, max_new_tokens=12)[0, start.shape[1]:].tolist()
    end = free[7]
    # Where the published file has several, so has this one
    source = dict(generation or facts)
    eos = [ids["eos_token_id"], end] if isinstance(source.get("eos_token_id"), list) else end
    if generation is None:
        facts = facts | {"eos_token_id": eos}
        (folder / "config.json").write_text(json.dumps(facts, indent=2))
    else:
        generation = generation | {key: value for key, value in ids.items() if key in generation}
        (folder / "generation_config.json").write_text(
            json.dumps(generation | {"eos_token_id": eos}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "pad_token": "</s>", "model_max_length": 64, "chat_template": TEMPLATE}))

    status, _, err = call(capsys, "import", folder, "--out", "run")
    assert status == 0 and all(key in err for key in UNDECLARED.get(name, [])), err
    assert err == "" or name in UNDECLARED, err
    status, out, err = call(capsys, "sample", "run", "--prompt", PROMPT, "--temperature", 0,
                            "--tokens", 12, "--json")
    assert (status, err) == (0, "")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    reader = transformers.AutoTokenizer.from_pretrained(folder)
    expected = reader(PROMPT, return_tensors="pt")["input_ids"]
    assert expected.tolist() == start.tolist()
    full = theirs.generate(expected, do_sample=False, max_new_tokens=12)[0].tolist()
    found = last_json(out)
    assert full[-1] in (end, ids["eos_token_id"])
    assert found["tokens"] == len(full) - start.shape[1] - 1 < 12
    assert found["text"] == PROMPT + reader.decode(full[start.shape[1]:-1])

    assert call(capsys, "export", "run", "--out", "back")[0] == 0
    files_are_back(folder, tmp_path / "back")
    again = transformers.AutoModelForCausalLM.from_pretrained("back", dtype=torch.float32)
    assert again.generate(expected, do_sample=False, max_new_tokens=12)[0].tolist() == full
    one, two = reader, transformers.AutoTokenizer.from_pretrained("back")
    for what in ("bos_token", "eos_token", "pad_token", "model_max_length", "chat_template"):
        assert getattr(one, what) == getattr(two, what), what
    assert one(PROMPT)["input_ids"] == two(PROMPT)["input_ids"]


@pytest.mark.parametrize("name", quick_among(ENCODERS, ["distilbert-base-uncased"]))
def test_an_encoder_from_its_folder_and_back(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer, folder = WordPieceTokenizer.of(TEXT, 40), tmp_path / "published"
    facts = small(ENCODERS[name], vocab_size=len(tokenizer))
    theirs = random_folder(folder, transformers.AutoModelForMaskedLM, facts)
    save_tokenizer(tokenizer, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "do_lower_case": True, "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
        "cls_token": "[CLS]", "mask_token": "[MASK]", "tokenizer_class": "BertTokenizer",
        "model_max_length": 62}))
    status, _, err = call(capsys, "import", folder, "--out", "run")
    assert (status, err) == (0, "")
    _, out, _ = call(capsys, "sample", "run", "--prompt", "the quick [MASK] fox", "--json")
    reader = transformers.AutoTokenizer.from_pretrained(folder)
    ids = reader("the quick [MASK] fox", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = theirs(ids).logits[0]
    best = logits[ids[0] == reader.mask_token_id].argmax(-1).item()
    assert reader.convert_ids_to_tokens(best).removeprefix("##") in last_json(out)["text"]
    assert call(capsys, "export", "run", "--out", "back")[0] == 0
    files_are_back(folder, tmp_path / "back")
    with torch.no_grad():
        again = transformers.AutoModelForMaskedLM.from_pretrained("back")(ids).logits[0]
    np.testing.assert_allclose(again.numpy(), logits.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", quick_among(ENCODER_DECODERS, ["mt5-small"]))
def test_an_encoder_decoder_from_its_folder_and_back(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = UnigramTokenizer.of(TEXT, 40, special=("<pad>", "</s>", "<unk>"))
    tokenizer, folder = published(own), tmp_path / "published"
    facts = small(ENCODER_DECODERS[name], vocab_size=len(tokenizer))
    theirs = random_folder(folder, transformers.AutoModelForSeq2SeqLM, facts)
    save_tokenizer(tokenizer, folder)
    status, _, err = call(capsys, "import", folder, "--out", "run")
    assert (status, err) == (0, "")
    _, out, _ = call(capsys, "sample", "run", "--prompt", "the dog", "--tokens", 8, "--json")
    ids = torch.tensor(tokenizer.prompt_ids("the dog"))[None]
    full = theirs.generate(ids, do_sample=False, max_new_tokens=8)[0, 1:].tolist()
    full = full[:full.index(1)] if 1 in full else full                # 1 is EOS
    assert last_json(out)["text"] == tokenizer.decode(full)
    assert call(capsys, "export", "run", "--out", "back")[0] == 0
    files_are_back(folder, tmp_path / "back")
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained("back")
    assert (again.generate(ids, do_sample=False, max_new_tokens=8).tolist()
            == theirs.generate(ids, do_sample=False, max_new_tokens=8).tolist())
