"""`numformer explore` writes a page for runs of all kinds, and cuts long texts."""

import json
import re
from types import SimpleNamespace

import pytest

from command import call, last_json
from numformer.commands import UsageError
from numformer.commands.explore import cut
from numformer.data import BytePairTokenizer
from numformer.recipes import TASKS
from numformer.recipes.library.library_task import SPECIAL


@pytest.mark.parametrize("text, start, most, part", [
    ("a[MASK]b", 0, 2, "a[MASK]"), ("日本語", 0, 4, "日"), ("日本語", 3, 6, "本語"), ("日本語", 1, 6, None),
    ("日本語", 0, 2, None)])
def test_cut_does_not_split_special_tokens_or_characters(text, start, most, part):
    """Special tokens are one token; a character of three bytes is shown as a whole."""
    tokenizer = BytePairTokenizer.of("aaaa", 257, special=SPECIAL)
    task, config = TASKS["topics"], SimpleNamespace(config=SimpleNamespace(context_length=99))
    chosen = SimpleNamespace(text=text, start=start, most=most)
    if part is None:
        with pytest.raises(UsageError, match="split a character"):
            cut(task, config, tokenizer, chosen)
    else:
        assert cut(task, config, tokenizer, chosen)[0] == part


def test_a_long_text_is_cut_with_a_note(capsys, runs, tmp_path):
    text, out = "the quick brown fox jumps", tmp_path / "page.html"
    status, printed, _ = call(capsys, "explore", runs("decoder"), "--text", text, "--start", 4,
                           "--out", out, "--json")
    data = json.loads(re.search(r'id="nf-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])
    assert status == 0 and data["live"]["text"] == text[4:20] and not data["views"]
    assert last_json(printed)["live"] is True
    assert all(words in data["note"] for words in ("25 tokens", "4 to 19", "--start"))
    assert last_json(printed)["note"] == data["note"]
    assert call(capsys, "explore", runs("decoder"), "--text", text[:16], "--out", out)[0] == 0
    assert json.loads(re.search(r'id="nf-data">(.*?)</script>', out.read_text(),
                                re.DOTALL)[1])["note"] == ""
    assert call(capsys, "explore", runs("decoder"), "--text", text, "--most", 5, "--out",
                out)[0] == 0
    data = json.loads(re.search(r'id="nf-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])
    assert len(data["live"]["text"]) == 5 == data["live"]["config"]["capacity"]


def test_weights_may_keep_their_32_bits(capsys, runs, tmp_path):
    sizes = []
    for weights in ("float16", "float32"):
        out = tmp_path / f"{weights}.html"
        assert call(capsys, "explore", runs("decoder"), "--weights", weights, "--out", out)[0] == 0
        data = json.loads(re.search(r'id="nf-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])
        sizes.append(len(data["live"]["weights"]))
        assert data["live"]["bits"] == int(weights[-2:])
    assert sizes[1] == pytest.approx(2 * sizes[0], abs=4)


@pytest.mark.parametrize("name, flags", [
    ("t5", ("--text", "sort: cab")), ("t5", ()), ("vit", ("--text", "3")), ("decoder", ())])
def test_explore_writes_pages_of_other_models(capsys, runs, name, flags):
    runs(name)
    capsys.readouterr()                                               # discard its output
    status, printed, err = call(capsys, "explore", runs(name), *flags)
    page = (runs(name) / "explore.html").read_text()
    assert (status, err) == (0, "") and "explore.html" in printed
    assert ('"image": null' in page) == (name != "vit")
    assert ("does not compute the model" in printed) == (name != "decoder")
