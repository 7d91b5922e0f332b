"""Three hints for every function and every backward: in its names, and short of its solution."""

import ast
import builtins
import inspect
import re
from textwrap import dedent

import numpy as np
import pytest

from numformer import functional as F
from numformer.specifications import SPECIFICATIONS, hints_of, versions

NAMES = [name + end for name in SPECIFICATIONS for end in ("", "_backward")]
MOST = 200                                            # characters: three lines of a screen


def sources(name):
    """The code of a function and of its other versions, without docstrings."""
    for function in (getattr(F, name), *versions(name)):
        tree = ast.parse(dedent(inspect.getsource(function)))
        body = tree.body[0].body
        yield body[1:] if isinstance(body[0], ast.Expr) and isinstance(
            getattr(body[0].value, "value", None), str) else body


def text_of(name):
    """All that a reader of a pair sees, and the names that the textbook versions use."""
    pair = name.removesuffix("_backward"), name.removesuffix("_backward") + "_backward"
    return "\n".join(inspect.getsource(function) for each in pair
                     for function in (getattr(F, each), *versions(each)))


def squeezed(text):
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("name", NAMES)
def test_every_function_has_three_hints(name):
    key = "backward_hints" if name.endswith("_backward") else "hints"
    found = hints_of(name)
    assert len(found) == 3, (
        f"{name} has {len(found)} hints: write {key}=(...) in its specify(...), three texts: the "
        "idea, the step or the shape, nearly the line.")
    assert len(set(found)) == 3
    for text in found:
        assert 20 < len(text) <= MOST, (len(text), text)
        assert text == " ".join(text.split()) and text.rstrip(")")[-1] in ".?"


def test_no_hint_is_given_for_two_functions():
    texts = [text for name in NAMES for text in hints_of(name)]
    assert len(texts) == len(set(texts)) == 3 * len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_hint_holds_the_whole_solution(name):
    """At least one expression of each version is left to find."""
    for body in sources(name):
        lines = [squeezed(ast.unparse(getattr(line, "value", line) or line)) for line in body]
        for text in hints_of(name):
            assert not all(line in squeezed(text) for line in lines), lines


def used_names(text):
    """Words of a hint that can only be names of code: x_hat, q_i, a call, a method, np.repeat."""
    text = re.sub(r'"\w+"', " ", text)
    yield from re.findall(r"\b[A-Za-z]\w*_\w+", text)
    yield from re.findall(r"\b([A-Za-z]\w*)\(", text)
    yield from re.findall(r"(?<=[\w\])])\.([A-Za-z]\w*)", text)
    yield from (word for word in re.findall(r"(?<!')\b[A-Za-z]\b", text) if word not in "aAI")


def names_of(name):
    """Words that a reader of a pair knows: of its source and equations, and gradients of these."""
    text = re.sub(r"\\(?:bar|hat|tilde|overline|mathrm)\{(\w+)\}", r" \1 ", text_of(name))
    return {*re.findall(r"[A-Za-z]\w*", text), *re.findall(r"[A-Za-z][A-Za-z0-9]*", text),
            *re.findall(r"[a-z]+|[A-Z][a-z]*", text)}


# Sizes, row and column, functions of the formulas, and the `at` of np.add.at
COMMON = {*"BTSHGDCFVENKMPrc", "erf", "erfc", "phi", "Phi", "sigma", "at"}


def is_known(word, known):
    """Whether a name, its base without index, or what it is the gradient of, is known."""
    base = word.split("_")[0]
    return any(each in known or each in COMMON or each in F.__all__ or hasattr(builtins, each)
               or hasattr(np, each) or hasattr(np.ndarray, each)
               for each in (word, base, word.removeprefix("d"), base.removeprefix("d")))


@pytest.mark.parametrize("name", NAMES)
def test_hints_have_the_names_of_their_function(name):
    known = names_of(name)
    introduced = set(re.findall(r"\b([a-zA-Z]\w*) (?:= |is |being )", " ".join(hints_of(name))))
    foreign = {word for text in hints_of(name) for word in used_names(text)
               if not is_known(word, known | introduced)}
    assert not foreign, (foreign, sorted(known))


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_numpy_in_hints_exist(name):
    for text in hints_of(name):
        for path in re.findall(r"\bnp\.(\w+)", text):
            assert hasattr(np, path), path
        for word in re.findall(r"\b[a-z_0-9]+_backward\b", text):
            assert word in F.__all__, word


def test_a_foreign_name_is_found():
    known = names_of("layer_norm")
    found = list(used_names('x_hat, then fancy(x).flow and np.mean of q_i with "half" of a row, z'))
    assert found == ["x_hat", "q_i", "fancy", "flow", "mean", "x", "z"]
    assert [word for word in found if not is_known(word, known)] == ["q_i", "fancy", "flow", "z"]
