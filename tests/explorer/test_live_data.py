"""What Python puts into a live page, and when it does not."""

import base64
import json
import re
from importlib.resources import files

import numpy as np
import pytest

from explorer_live import LETTERS, OPTIONS, TEXT, live_decoder, live_page
from explorer_page import decoder, vision
from numformer.data import BytePairTokenizer, CharacterTokenizer, WordTokenizer
from numformer.explorer import explore, live_model, why_not_live
from numformer.explorer.page import ENGINE, LIVE, VIEWS
from numformer.models import Decoder, DecoderConfig
from numformer.recipes import PRESETS

LETTERS_AS_TOKENS = CharacterTokenizer(LETTERS)


def data_of(page):
    return json.loads(re.search(r'id="nf-data">(.*?)</script>', page.html, re.DOTALL)[1])


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("weights, kind", [("float16", "<f2"), ("float32", "<f4")])
def test_a_live_page_holds_all_weights(name, weights, kind):
    model = live_decoder(name)
    packed = data_of(live_page(model, weights=weights))["live"]
    stored = np.frombuffer(base64.b64decode(packed["weights"]), kind)
    at = 0
    for (name, shape), (expected, array) in zip(packed["shapes"], model.state_dict().items(),
                                                strict=True):
        assert (name, tuple(shape)) == (expected, array.shape)
        assert np.array_equal(stored[at:at + array.size].reshape(shape), array)
        at += array.size
    assert at == stored.size


def test_the_page_of_tiny_is_small():
    """Its size is that of its 342,480 weights in 16 bits, and of the scripts."""
    tokenizer = CharacterTokenizer("".join(map(chr, range(32, 135))))
    sizes = PRESETS["tiny"].model
    model = Decoder(DecoderConfig(vocab_size=len(tokenizer), **sizes), np.random.default_rng(0))
    assert sum(p.data.size for _, p in model.named_parameters()) == 342_480
    from numformer.analysis.attention_views import Reading

    page = explore(model, Reading((tokenizer.encode("text")[None],), list("text")),
                   tokenizer=tokenizer)
    assert page.why_not_live is None and len(page.html.encode()) <= 1_500_000
    assert "http" not in page.html and "src=" not in page.html and "@import" not in page.html


def test_every_script_is_part_of_a_page_and_names_are_unique():
    """All scripts share one scope; replay.js is the script of another page."""
    folder = files("numformer.explorer")
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.js")} - {"replay.js"}
    assert found == {*ENGINE, *VIEWS, *LIVE, "explorer.js"}
    names = [name for each in found for name in re.findall(
        r"^(?:async )?(?:function|const|let) (\w+)", folder.joinpath(each).read_text(), re.M)]
    assert len(names) == len(set(names))
    for each in found:
        lines = folder.joinpath(each).read_text().splitlines()
        assert len(lines) <= 300 and max(map(len, lines)) <= 100 and lines[0].startswith("// ")


@pytest.mark.parametrize("options, words", [
    (dict(positions="shaw"), "positions='shaw'"), (dict(feedforward="swish"), "'swish'"),
    (dict(positions="none", attention_weights="even"), "attention_weights='even'"),
    (dict(score_softcap=5.0), "score_softcap=5.0"), (dict(vocab_size=8), "vocab_size=8")])
def test_what_the_script_does_not_compute_is_named(options, words):
    assert words in why_not_live(live_decoder(**options), LETTERS_AS_TOKENS)


def test_other_models_tokenizers_and_sizes_are_not_live():
    model = live_decoder()
    assert why_not_live(model, LETTERS_AS_TOKENS) is None
    assert "VisionTransformer" in why_not_live(vision()[0], None)
    assert "no tokenizer" in why_not_live(model, None)
    assert "WordTokenizer" in why_not_live(model, WordTokenizer.of("a b", 9))
    assert "'gpt2'" in why_not_live(model, BytePairTokenizer([], split="gpt2"))
    large = Decoder(DecoderConfig(vocab_size=9, context_length=8, n_layers=1, n_heads=1,
                                  d_model=1024), None)
    assert "12,615,680 parameters" in why_not_live(large, LETTERS_AS_TOKENS)
    model.blocks[0].norm1.epsilon = 1.0
    assert "were changed" in why_not_live(model, LETTERS_AS_TOKENS)


def test_a_page_that_is_not_live_says_why():
    page = explore(*decoder())
    assert page.why_not_live == "no tokenizer was given, which the page needs to read text"
    assert page.why_not_live in page.html and "not live" in repr(page)
    assert not any(part in page.html for part in ("buildDecoder", "numformerPage = "))


def test_numbers_that_16_bits_cannot_hold_are_an_error():
    model = live_decoder()
    model.norm.weight.data[0] = 70_000
    with pytest.raises(ValueError, match="norm.weight has numbers that float16 cannot hold"):
        live_page(model)
    assert live_page(model, weights="float32").why_not_live is None
    with pytest.raises(ValueError, match="weights='int8'"):
        live_page(model, weights="int8")
    with pytest.raises(ValueError, match="most=0"):
        live_model(model, LETTERS_AS_TOKENS, 0)


def test_a_page_reads_no_more_tokens_than_the_model():
    model = live_decoder()
    for most, capacity in ((64, 16), (5, 5)):
        packed = data_of(live_page(model, most=most))["live"]
        assert packed["config"]["capacity"] == capacity and packed["text"] == TEXT[-most:]
