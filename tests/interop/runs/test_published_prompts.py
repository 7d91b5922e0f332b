"""Prompts, ends, sampling and conversations of published models, with transformers as witness."""

import io
import json
import sys

import numpy as np
import pytest

from chat_folder import CHATML, SPECIAL, TEXT, tokenizer_of, write
from command import call, last_json
from numformer.data import BytePairTokenizer
from numformer.generation import generate, generate_batch
from numformer.interop import chat_template, load, read_published, text_settings
from numformer.runs import load_run


def test_the_prompt_has_the_special_tokens_of_the_template(chat_folder):
    tokenizer, own = tokenizer_of(), BytePairTokenizer.of(TEXT, 60)
    bos = tokenizer.special_id("<s>")
    assert tokenizer.first_ids == (bos,) and own.first_ids == ()
    assert tokenizer.prompt_ids("the dog").tolist() == [bos, *tokenizer.encode("the dog")]
    assert own.prompt_ids("the dog").tolist() == own.encode("the dog").tolist()


def test_sample_plot_explore_and_eval_read_bos_first(chat_run, capsys, tmp_path):
    """What each verb computes is what the model computes with BOS, and not without."""
    model, tokenizer, _, task = load_run(chat_run)
    ids = tokenizer.prompt_ids("the dog")
    wanted = tokenizer.decode(list(generate(model, ids, 9, temperature=0)))
    bare = tokenizer.decode(list(generate(model, tokenizer.encode("the dog"), 9, temperature=0)))
    _, out, _ = call(capsys, "sample", chat_run, "--prompt", "the dog", "--temperature", 0,
                     "--tokens", 9, "--json")
    found = last_json(out)["text"]
    assert wanted.startswith(found.removeprefix("the dog")) and wanted != bare
    assert task.reading(model, tokenizer, "the dog").inputs[0][0].tolist() == ids.tolist()
    status, out, _ = call(capsys, "explore", chat_run, "--text", "the dog" * 40, "--out",
                          "page.html")
    assert status == 0 and "The text has" in out, "it is cut to what fits together with BOS"
    (tmp_path / "text.txt").write_text(TEXT)
    status, out, _ = call(capsys, "eval", chat_run, "--data", tmp_path / "text.txt", "--json")
    held_out = tokenizer.encode(TEXT[len(TEXT) * 9 // 10:])
    first, *_ = task.validation(task.load(str(tmp_path / "text.txt")), tokenizer, model.config)
    assert status == 0 and set(first.inputs[:, 0]) == {tokenizer.special_id("<s>")}
    assert last_json(out)["tokens"] == len(held_out), "each token is a target once"


def test_a_text_ends_at_any_of_its_ends(chat_run, capsys):
    model, tokenizer, facts, _ = load_run(chat_run)
    end = text_settings(facts["published"], len(tokenizer)).end
    assert end == tuple(map(tokenizer.special_id, SPECIAL[1::-1]))
    ids, ended = tokenizer.prompt_ids("the"), 0
    for seed in range(12):
        found = list(generate(model, ids, 40, np.random.default_rng(seed), 1.5, end=end))
        free = list(generate(model, ids, 40, np.random.default_rng(seed), 1.5))
        n = next((n for n, token in enumerate(free) if token in end), 40)
        assert found == free[:n]
        ended += n < 40
    assert ended > 0, "the comparison is of something"
    with pytest.raises(ValueError, match="end"):
        next(generate(model, ids, 3, temperature=0, end=[1, len(tokenizer)]))
    rngs = [np.random.default_rng(seed) for seed in range(12)]
    rows = np.stack(list(generate_batch(model, [ids] * 12, 40, rngs, 1.5, end=end)), axis=1)
    for row in rows:                                  # an ended text repeats what ended it
        n = next((n for n, token in enumerate(row) if token in end), len(row))
        assert len(set(row[n:])) <= 1


@pytest.mark.parametrize("files, words", [
    ({}, "no way of sampling"), ({"do_sample": False}, "greedy"), ({"temperature": 0.6}, "greedy"),
    ({"do_sample": True}, "temperature 1, top-k 50"),
    ({"do_sample": True, "temperature": 0.6, "top_p": 0.9}, "temperature 0.6, top-k 50, top-p 0.9"),
    ({"do_sample": True, "top_k": 64, "top_p": 0.95}, "temperature 1, top-k 64, top-p 0.95"),
    ({"do_sample": True, "top_k": 0, "top_p": 1.0}, "temperature 1"),
    ({"repetition_penalty": 1.1}, "no way of sampling; repetition_penalty is not applied")])
def test_the_published_way_of_sampling(files, words):
    assert str(text_settings({"generation_config.json": files}, 99)) == words


def test_settings_that_transformers_takes(tmp_path):
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")

    for files in ({"do_sample": True}, {"do_sample": True, "temperature": 0.6, "top_p": 0.9},
                  {"do_sample": True, "top_k": 20, "eos_token_id": [1, 2]}, {"eos_token_id": 5},
                  {"do_sample": False, "eos_token_id": None}):
        write(tmp_path, "generation_config.json", files)
        theirs = transformers.GenerationConfig.from_pretrained(tmp_path)
        theirs.update(**theirs._get_default_generation_params(), defaults_only=True)
        ours = text_settings({"generation_config.json": files}, 99)
        end = theirs.eos_token_id
        assert ours.end == tuple([] if end is None else np.atleast_1d(end).tolist())
        if ours.temperature:
            assert (ours.temperature, ours.top_k, ours.top_p or 1.0) == (
                theirs.temperature, theirs.top_k, theirs.top_p)
        else:
            assert not theirs.do_sample


@pytest.mark.parametrize("files, words", [
    ({"eos_token_id": "2"}, "'eos_token_id' = .* must be a whole number, or several"),
    ({"eos_token_id": [1.5]}, "must be a whole number, or several"),
    ({"do_sample": True, "temperature": -1}, "temperature=-1"),
    ({"do_sample": True, "top_p": 7}, "top_p=7")])
def test_settings_that_are_none(files, words, chat_folder, capsys):
    write(chat_folder, "generation_config.json", files)
    with pytest.raises(ValueError, match=words):
        text_settings(read_published(chat_folder), 99)
    status, _, err = call(capsys, "import", chat_folder, "--out", "run")
    assert status in (1, 2) and err.count("\n") == 1 and not (chat_folder.parent / "run").exists()


def test_ids_of_an_old_folder_are_in_config_json(chat_folder):
    (chat_folder / "generation_config.json").unlink()
    facts = json.loads((chat_folder / "config.json").read_text())
    write(chat_folder, "config.json", facts | {"eos_token_id": 7})
    assert text_settings(read_published(chat_folder), 99).end == (7,)
    write(chat_folder, "generation_config.json", {"eos_token_id": [8, 8, 99]})
    assert text_settings(read_published(chat_folder), 99).end == (8,), "the model has no 99"


def test_sample_says_what_the_files_say_unless_flags_do(chat_folder, capsys):
    write(chat_folder, "generation_config.json",
          {"do_sample": True, "temperature": 0.6, "top_p": 0.9})
    assert call(capsys, "import", chat_folder, "--out", "run")[0] == 0
    line = "as the files of the model say: temperature 0.6, top-k 50, top-p 0.9\n"
    model, tokenizer, *_ = load_run("run")
    ids = tokenizer.prompt_ids("the")
    for flags, chosen in (([], (0.6, 50, 0.9)), (["--temperature", 2], (2.0, 50, 0.9)),
                          (["--top-k", 3], (0.6, 3, 0.9)), (["--temperature", 0], (0, None, None))):
        status, out, err = call(capsys, "sample", "run", "--prompt", "the", "--tokens", 8, *flags)
        tokens = generate(model, ids, 8, np.random.default_rng(0), *chosen)
        assert status == 0 and err == ("" if chosen[0] == 0 else line)
        assert out == f"the{''.join(tokenizer.decode_stream(tokens, after=ids))}\n"


# ---- conversations -------------------------------------------------------------------------------


def talk(capsys, monkeypatch, lines, *argv):
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return call(capsys, "chat", *argv)


def test_a_conversation_in_a_pipe_is_what_transformers_generates(chat_folder, chat_run, capsys,
                                                                 monkeypatch):
    pytest.importorskip("jinja2", reason="templates need jinja2")
    status, out, err = talk(capsys, monkeypatch, ["the dog", "", "and the fox"], chat_run, "--json",
                            "--tokens", 6)
    assert status == 0, err
    messages = last_json(out)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(chat_folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(chat_folder)
    for n in (1, 3):
        found = tokenizer.apply_chat_template(messages[:n], add_generation_prompt=True,
                                              return_tensors="pt", return_dict=True)
        ids = theirs.generate(**found, do_sample=False, max_new_tokens=6)[0]
        answer = tokenizer.decode(ids[found["input_ids"].shape[1]:], skip_special_tokens=True)
        assert messages[n]["content"] == answer


def test_an_import_leads_to_the_conversation(chat_folder, capsys):
    for line, words in (("  numformer chat one\n", {}), ("", {"chat_template": None})):
        facts = json.loads((chat_folder / "tokenizer_config.json").read_text()) | words
        write(chat_folder, "tokenizer_config.json", facts)
        _, out, _ = call(capsys, "import", chat_folder, "--out", "two" if words else "one")
        assert out.endswith(f"  numformer sample {'two' if words else 'one'}\n{line}")


def test_a_conversation_ends_at_quit_and_begins_with_the_system(chat_run, capsys, monkeypatch):
    pytest.importorskip("jinja2", reason="templates need jinja2")
    status, out, err = talk(capsys, monkeypatch, ["the dog", "/quit", "no more"], chat_run,
                            "--tokens", 4, "--system", "on", "--temperature", 1.2, "--seed", 3)
    assert status == 0 and "no more" not in out
    again = talk(capsys, monkeypatch, ["the dog"], chat_run, "--tokens", 4, "--system", "on",
                 "--temperature", 1.2, "--seed", 3)
    assert again[1] == out, "the seed decides"
    other = talk(capsys, monkeypatch, ["the dog"], chat_run, "--tokens", 4, "--system", "on",
                 "--json")
    assert last_json(other[1])["messages"][0] == {"role": "system", "content": "on"}


def test_a_long_conversation_forgets_the_oldest_messages(chat_run, capsys, monkeypatch):
    pytest.importorskip("jinja2", reason="templates need jinja2")
    lines = ["the dog", "the fox", "the lazy dog", "over", "on"]
    status, out, err = talk(capsys, monkeypatch, lines, chat_run, "--tokens", 5, "--json",
                            "--system", "and")
    found = last_json(out)
    assert status == 0 and found["forgotten"] > 0 and "older messages are forgotten" in err
    assert found["messages"][0]["role"] == "system" and found["messages"][-2]["content"] == "on"
    status, _, err = talk(capsys, monkeypatch, ["the dog sleeps on" * 30], chat_run)
    assert status == 2 and "write a shorter one" in err and err.count("\n") == 1


def test_runs_that_hold_no_conversation_say_so(chat_folder, capsys, monkeypatch):
    pytest.importorskip("jinja2", reason="templates need jinja2")
    for template, words in ((None, "has no template of conversations"), ("{% if", "is no Jinja"),
                            ([{"name": "tool_use", "template": "x"}], "has no template"),
                            (7, "must be a text"), ("{{ raise_exception('no') }}", "no"),
                            ("{{ messages.__class__.__mro__ }}", "unsafe"),
                            ("{% for i in range(10**9) %}x{% endfor %}", "OverflowError"),
                            ("{{ 1 / 0 }}", "ZeroDivisionError")):
        facts = json.loads((chat_folder / "tokenizer_config.json").read_text())
        write(chat_folder, "tokenizer_config.json", facts | {"chat_template": template})
        out = f"run{len(list(chat_folder.parent.iterdir()))}"
        assert call(capsys, "import", chat_folder, "--out", out)[0] == 0
        status, _, err = talk(capsys, monkeypatch, ["hello"], out)
        assert status == 2 and words in err and err.count("\n") == 1, err


def test_a_template_of_ones_own(chat_run, capsys, monkeypatch):
    """So a run that has none may hold a conversation, too."""
    pytest.importorskip("jinja2", reason="templates need jinja2")
    status, out, _ = talk(capsys, monkeypatch, ["the dog"], chat_run, "--tokens", 5, "--template",
                          "{{ bos_token }}{{ messages[-1].content }}")
    model, tokenizer, facts, _ = load_run(chat_run)
    end = text_settings(facts["published"], len(tokenizer)).end
    found = generate(model, tokenizer.encode("<s>the dog"), 5, temperature=0, end=end)
    assert (status, out) == (0, f"{tokenizer.decode(list(found))}\n")


def test_templates_as_published_code_renders_them(chat_folder):
    """Control, macros, namespaces, loop controls, tojson and the marks of what was generated."""
    pytest.importorskip("jinja2", reason="templates need jinja2")
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")
    templates = [
        CHATML, "{{ bos_token }}{% for m in messages %}\n  {% if m.role == 'user' %}\n  "
        "[{{ loop.index0 }}]{{ m.content | trim }}\n  {% endif %}\n{% endfor %}{{ eos_token }}",
        "{%- set ns = namespace(n=0) -%}{%- for m in messages -%}{%- if m.role == 'system' -%}"
        "{%- continue -%}{%- endif -%}{%- set ns.n = ns.n + 1 -%}{{ ns.n }}{{ m | tojson }}"
        "{%- endfor -%}",
        "{% macro say(m) %}<{{ m.role | upper }}>{{ m.content }}{% endmacro %}"
        "{% for m in messages %}{{ say(m) }}{% endfor %}",
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"]
    messages = [{"role": "system", "content": "<é> \"q\""}, {"role": "user", "content": " a\nb "}]
    tokenizer = transformers.AutoTokenizer.from_pretrained(chat_folder)
    for source in templates:
        write(chat_folder, "chat_template.jinja", source)             # precedes the other one
        ours = chat_template(read_published(chat_folder))
        for answer in (True, False):
            assert ours.text(messages, answer) == tokenizer.apply_chat_template(
                messages, chat_template=source, tokenize=False, add_generation_prompt=answer)


def test_text_of_transformers_with_its_own_ids(chat_folder, chat_run, capsys):
    """From a chat_folder to a greedy text that ends, as the published code does it."""
    transformers = pytest.importorskip("transformers", reason="the witness is not installed")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(chat_folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(chat_folder)
    for prompt in ("the dog", "over", "quick brown", "<|im_start|>user\nthe"):
        ids = tokenizer(prompt, return_tensors="pt")
        expected = theirs.generate(**ids, do_sample=False, max_new_tokens=20)[0].tolist()
        _, out, _ = call(capsys, "sample", chat_run, "--prompt", prompt, "--temperature", 0,
                         "--tokens", 20, "--json")
        found = last_json(out)
        n = ids["input_ids"].shape[1]
        ended = expected[-1] in theirs.generation_config.eos_token_id
        assert found["tokens"] == len(expected) - n - ended
        assert found["text"] == prompt + tokenizer.decode(expected[n:len(expected) - ended])
    assert load(chat_folder)[1].prompt_ids("the dog").tolist() == tokenizer("the dog")["input_ids"]
