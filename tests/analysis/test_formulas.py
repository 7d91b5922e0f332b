"""Expressions of the code as formulas: precedence, what is left out, and what must not be."""

import ast

import numpy as np
import pytest

from numformer.analysis.structure.formulas import Formula, Writer, mark

A = {name: np.arange(1.0, 5.0).reshape(2, 2) + k for k, name in enumerate("abc")}
NUMBERS = {"scale": Formula("1 / √D", 1), "one": Formula("1"), "epsilon": Formula("epsilon")}
VALUES = {**A, "scale": 0.5, "one": 1.0, "epsilon": 1e-5, "order": np.array([1, 0]),
          "finite": np.ones((2, 2), bool), "half": np.array([[True, False], [True, True]])}


def written(code):
    def names(name, value):
        if name in A:
            return mark(sorted(A).index(name))
        return NUMBERS.get(name, Formula(name or f"{value}"))

    formula = Writer(names, lambda array: None, lambda node: None, VALUES, {"np": np}).formula(
        ast.parse(code, mode="eval").body)
    text = formula.text
    for k, name in enumerate(sorted(A)):
        text = text.replace(mark(k).text, name)
    return text, formula.multiplies


@pytest.mark.parametrize("code, wanted", [
    ("a @ b.mT * scale", "a bᵀ / √D"), ("a * one", "a"), ("a / one / one", "a"),
    ("(a + b) @ c", "(a + b) c"), ("a + b @ c", "a + b c"), ("(a * b) @ c", "(a · b) c"),
    ("a - (b - c)", "a − (b − c)"), ("a / (b * c)", "a / (b · c)"), ("-a * b", "(−a) · b"),
    ("(a + epsilon) ** -0.5", "1 / √(a + epsilon)"), ("c * (a + epsilon) ** -0.5",
                                                      "c / √(a + epsilon)"),
    ("(a + b) ** 2", "(a + b)²"), ("(a * b).mean(axis=-1, keepdims=True)", "mean(a · b)"),
    ("a.sum(axis=0)", "sum(a, axis 0)"), ("np.exp(a - b)", "exp(a − b)"),
    ("a.mT.mT", "a"), ("(a + b).mT", "(a + b)ᵀ")])
def test_a_formula_has_the_order_of_its_operations(code, wanted):
    assert written(code)[0] == wanted


@pytest.mark.parametrize("code, wanted", [
    ("a[:, None]", "a"), ("a[None, ..., None]", "a"), ("a[order]", "a[order]"),
    ("a[::-1]", "a[::-1]"), ("a[:, :1]", "a[:, :1]"), ("np.exp(a)[:, :1]", "exp(a)[:, :1]"),
    ("np.exp(a)[:, None]", "exp(a)"), ("np.exp(a)[0]", "exp(a)[0]"),
    ("np.where(finite, a, 0)", "a"), ("np.where(half, a, 0)", "where(half, a, 0)"),
    ("a.reshape(4).astype(float)", "a"), ("a if scale is None else b", "b")])
def test_what_changes_no_number_is_left_out_and_nothing_else(code, wanted):
    assert written(code)[0] == wanted


def test_a_product_of_two_arrays_is_known_and_a_map_by_a_number_is_none():
    assert written("a @ b * scale")[1] and written("np.exp(a @ b)")[1]
    assert not written("a * b")[1] and not written("a * scale")[1]
