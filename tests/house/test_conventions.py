"""The page of conventions is right: its names, defaults and numbers are those of the code, and
what it lists as slips are slips."""

import ast
import inspect
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from numformer import functional as F
from numformer.cli import VERBS
from numformer.layers import LSTM
from numformer.analysis import count
from numformer.models import CONFIGS, Decoder, DecoderConfig, Encoder, EncoderConfig

ROOT = Path(__file__).parents[2]
PAGE, README = ((ROOT / name).read_text() for name in ("numformer/CONVENTIONS.md", "README.md"))
ROOMS = [import_module(f"numformer.{room}") for room in (
    "functional", "layers", "models", "data", "training", "generation", "analysis", "backend",
    "recipes")]


def cells(text, column):
    """One cell of every row of the tables of a text that is no heading and no line below one."""
    lines = text.split("\n")
    rows = [line.strip("|").split("|") for n, line in enumerate(lines)
            if line.startswith("|") and not line.startswith("|--")
            and not lines[n + 1].startswith("|--")]
    return [row[column].strip() for row in rows]


def find(name):
    """What a dotted name stands for, in the first room that has it."""
    first, *rest = name.split(".")
    found = next((getattr(room, first) for room in ROOMS if hasattr(room, first)), None)
    for part in rest:
        found = getattr(found, part, None)
    return found


def faults(cell):
    """What is wrong with the names in a cell."""
    docstrings, literals = "", []
    for code in re.findall("`([^`]+)`", cell):
        tree = (None if code.startswith(("tests/", "numformer "))
                else ast.parse(code, mode="eval").body)
        if tree is None:
            if not ((ROOT / code).is_file() or code.split()[-1] in VERBS):
                yield f"{code}: no such file or verb"
        elif isinstance(tree, ast.Constant):
            literals.append(code)
        elif isinstance(tree, ast.Subscript):
            if ast.literal_eval(tree.slice) not in find(ast.unparse(tree.value)):
                yield f"{code}: no such entry"
        elif (found := find(ast.unparse(getattr(tree, "func", tree)))) is None:
            yield f"{code}: no such name"
        else:
            docstrings += found.__doc__ or ""
            if isinstance(tree, ast.Call):
                options = inspect.signature(found).parameters
                wanted = {option.id: inspect.Parameter.empty for option in tree.args}
                wanted |= {option.arg: ast.literal_eval(option.value) for option in tree.keywords}
                for name, default in wanted.items():
                    if name not in options:
                        yield f"{code}: no option {name}"
                    elif options[name].default is not default and (
                            type(options[name].default) is not type(default)
                            or options[name].default != default):
                        yield f"{code}: the default is {options[name].default!r}"
    yield from (f"{code}: not in a docstring" for code in literals if code not in docstrings)


def test_names_and_defaults_are_those_of_the_code():
    found = cells(PAGE, -1)
    assert len(found) > 100 and sum("`" in cell for cell in found) > 100
    assert [fault for cell in found for fault in faults(cell)] == []


def test_the_readme_links_to_the_page():
    assert "(numformer/CONVENTIONS.md)" in README


@pytest.mark.parametrize("cell, fault", [
    ("`LayerNorms`", "no such name"), ("`LSTM.forwards`", "no such name"),
    ('`CONFIGS["gpt5"]`', "no such entry"),
    ("`LayerNorm(epsilon_inside=False)`", "the default is True"),
    ("`Adam(epsilon=0)`", "the default is 1e-08"),
    ("`LayerNorm(epsilon)`", "the default is 1e-05"), ("`Linear(std=0)`", "the default is None"),
    ("`DecoderConfig(n_experts=True)`", "the default is 1"),
    ("`LayerNorm(inside=True)`", "no option inside"),
    ('`RotaryPositions(layout="half")`, `"whole"`', "not in a docstring"),
    ("`tests/test_none.py`", "no such file"),
    ("`numformer fly`", "no such file or verb")])
def test_wrong_names_and_defaults_are_found(cell, fault):
    found, = faults(cell)
    assert fault in found


def test_every_row_is_whole():
    for line in PAGE.split("\n"):
        if line.startswith("| "):
            assert line.endswith(" |") and line.count("|") in (5, 6), line
    decks = cells(PAGE[PAGE.index("## Slips"):], 0)
    assert len(decks) > 50 and all(re.match("[A-E](, [A-E])*, ", deck) for deck in decks)


def sources():
    """(row, source) of every row of the page: the cell before the last one."""
    return [(line, line.strip("|").split("|")[-2].strip()) for line in PAGE.split("\n")
            if line.startswith("| ") and not line.startswith(("| question |", "| deck |"))]


def unsourced(cell):
    """Whether a source has no words, and does not say why; words are at most a line."""
    who, *words = re.split(""": (?=["`])""", cell)
    return (not who or any(len(w) > 140 for w in re.findall('"[^"]+"', cell))
            or not words and not re.search("no text: .|: not quoted", cell))


def test_every_row_quotes_its_source():
    found = sources()
    assert [row for row, cell in found if unsourced(cell)] == []
    assert sum('"' in cell or "`" in cell for _, cell in found) > 0.85 * len(found)


@pytest.mark.parametrize("cell", [
    "", "-", "Vaswani et al. (2017), section 3.5", '"so that the two can be summed"',
    f'Vaswani et al. (2017), section 3.5: "{"so that " * 20}"'])
def test_a_source_without_words_and_words_without_a_source_are_found(cell):
    assert unsourced(cell)


def test_numbers_on_the_page():
    gpt3, mixtral = CONFIGS["gpt3"], count(CONFIGS["mixtral-8x7b"])
    dense = count(replace(CONFIGS["mixtral-8x7b"], n_experts=1))["parameters"] / 1e9
    assert round(count(gpt3)["parameters"] / 1e9) == 175 and gpt3.n_layers == 96
    assert f"it would be {count(replace(gpt3, n_layers=175))['parameters'] / 1e9:.0f}" in PAGE
    printed = CONFIGS["gpt3-xl"]
    assert f"XL then has {count(printed)['parameters'] / 1e9:.2f} billion" in PAGE
    assert round(count(replace(printed, n_heads=16))["parameters"] / 1e9, 1) == 1.3
    total, active = (mixtral[name] / 1e9 for name in ("parameters", "active_parameters"))
    assert f"{total:.1f} billion, {active:.1f} active" in PAGE
    assert f"would be {8 * dense:.1f} and {2 * dense:.1f}" in PAGE

    def millions(n_layers, C, d_hidden, tables):
        encoder = Encoder(EncoderConfig(n_layers=n_layers, n_heads=C // 64, d_model=C,
                                        d_hidden=d_hidden, norm_first=False), rng=None)
        return (sum(parameter.data.size for parameter in encoder.parameters()) + tables) / 1e6

    # BERT's tables of tokens, positions and segments, their norm, and the pooler's linear layer
    base, large = ([millions(n, C, d_hidden, (30522 + 512 + 2) * C + 2 * C + C * C + C)
                    for d_hidden in (C, 4 * C)] for n, C in ((12, 768), (24, 1024)))
    assert (f"have {base[0]:.1f} million parameters and not {base[1]:.1f}, "
            f"the large one {large[0]:.1f} and not {large[1]:.1f}") in PAGE
    assert f"would make {millions(12, 1024, 4096, 37000 * 1024):.0f} million" in PAGE
    lengths = {name: CONFIGS[name].context_length
               for name in ("bert-base", "gpt1", "modernbert-base", "gpt3")}
    assert lengths["bert-base"] == lengths["gpt1"] == 512
    assert (f"both have 512 tokens, ModernBERT, an encoder, has {lengths['modernbert-base']}, "
            f"and GPT-3, a decoder, {lengths['gpt3']}") in PAGE
    lstm = LSTM(48, 48, None)
    assert sum(parameter.data.size for parameter in lstm.parameters()) == 8 * 48**2 + 4 * 48


def softmax(z, axis):
    return F.softmax(z, axis=axis)[0]


def test_a_scale_outside_of_the_exponential_cancels(rng):
    e = np.exp(rng.standard_normal(7)) / 4.0
    np.testing.assert_allclose(e / e.sum(), softmax(np.log(e), 0), rtol=1e-14)


def test_attention_to_columns_as_printed_sees_the_future_alone(rng):
    """V softmax(Q'K + M) with vectors in columns, along either axis. The right form is ours,
    transposed."""
    p, n = 4, 5
    q, k, v = rng.standard_normal((3, p, n))
    M = np.where(np.tri(n, dtype=bool), 0, -np.inf)                   # 0 where j <= i
    for axis in (0, 1):
        weights = softmax(q.T @ k / p**0.5 + M, axis)     # output i is column i of v @ weights
        assert np.array_equal(weights.T != 0, np.tri(n, dtype=bool).T)
    right = v @ softmax(k.T @ q / p**0.5 + M.T, 0)
    ours, _ = F.scaled_dot_product_attention(*(x.T[None, None] for x in (q, k, v)), F.CAUSAL)
    np.testing.assert_allclose(right, ours[0, 0].T, rtol=1e-12)


def test_a_head_in_columns_needs_the_transpose(rng):
    """Q_1 = W_Q^1 X exists only for a square matrix, and is not W_Q' X then."""
    d, p, n = 6, 4, 5
    w, x = rng.standard_normal((d, p)), rng.standard_normal((d, n))
    right, _ = F.linear(x.T, w)
    np.testing.assert_allclose((w.T @ x).T, right, rtol=1e-12)
    with pytest.raises(ValueError, match="mismatch"):
        w @ x
    square = rng.standard_normal((d, d))
    assert not np.allclose(square @ x, square.T @ x)


def test_two_sines_do_not_tell_distances():
    both = F.sinusoidal_positions(np.arange(90), 16)
    sines = np.repeat(both[:, 0::2], 2, axis=1)
    for table, same in ((both, True), (sines, False)):
        products = [table[t] @ table[t + 7] for t in range(80)]
        assert np.allclose(products, products[0], rtol=1e-12) == same
    similarity = both @ both[0]
    assert similarity.argmax() == 0 and (np.diff(similarity) > 0).any(), "not monotonic"


@pytest.mark.parametrize("n_layers, order_of_earlier_tokens_matters", [(1, False), (2, True)])
def test_a_causal_mask_without_positions(n_layers, order_of_earlier_tokens_matters, rng):
    config = DecoderConfig(vocab_size=9, context_length=8, n_layers=n_layers, n_heads=2, d_model=8,
                           positions="none", init_std=0.5, dtype="float64")
    model = Decoder(config, rng)
    logits, earlier, last = (model(np.array([ids]))[0, -1]
                             for ids in ([1, 2, 3, 4], [2, 1, 3, 4], [2, 4, 1, 3]))
    assert np.allclose(logits, earlier, rtol=1e-10) != order_of_earlier_tokens_matters
    assert not np.allclose(logits, last, rtol=1e-3), "the last token is the query"
