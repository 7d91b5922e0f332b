"""No text of a picture covers another one or leaves the picture, in both sizes."""

from contextlib import nullcontext

import numpy as np
import pytest

from marks import quick_among, slow_among
from overlaps import faults
from numformer import plots
from numformer.analysis import attention_traffic, pattern_targets
from numformer.commands import figures

SIZES = {"page": nullcontext, "slide": plots.slides}
# those that need no run, no measurement and no diagram
DRAWN = ("alibi", "lstm_cell", "masks", "memory_hierarchy", "model_costs", "model_sizes", "norms",
         "permutation", "rotary", "rotary_proof", "similarity", "sinusoid_curves", "sinusoids",
         "swish", "tile_frames", "tile_order", "unrolled_rnn")


def examples(rng):
    """Pictures of trained models, with random numbers."""
    letters, X = list("the value of the"), np.linspace(-1, 1, 9)
    weights = [rng.dirichlet(np.ones(16), (4, 16)) for _ in range(3)]
    names = ("previous", "own", "next", "first")
    metrics = [{"step": n, "loss": 5.0 / n, "gradient_norm": 6.0 / n, "learning_rate": 1e-3}
               for n in range(1, 9)]
    yield plots.attention_heads(weights, [(0, 0), (0, 1), (1, 2), (2, 3)], letters)
    yield plots.heads_by_pattern({name: rng.random((3, 4)) for name in names}, weights, letters,
                                 pattern_targets(16))
    yield plots.temperature_panels(rng.standard_normal(60), ["x"] * 60, top_k=8)
    yield plots.tokens_by_loss(list("a text, and another text\n" * 9), rng.random(224))
    yield plots.embedding_map(rng.standard_normal((60, 4)), ["x"] * 60, ["a", "b", "c"] * 20)
    yield plots.learned_positions(rng.standard_normal((64, 32)))
    yield plots.loss_contours([plots.Plane(1 + X ** 2 + X[:, None] ** 2, X, X, "random directions",
                                           ("first direction, filter-normalized",) * 2)] * 2)
    yield plots.memory_hierarchy(attention_traffic(4096, 4096, 64), {
        "registers": 2048, "L1 cache": 32768, "L2 cache": 2 ** 20})
    yield plots.lens_map(rng.standard_normal((4, 33, 5)), list("abcde"), list("the value " * 3) + [
        "a", "b", "c"])
    k, v = rng.standard_normal((2, 33, 8))
    yield plots.query_detail(k[0], k, list("x" * 33), v=v)
    yield plots.slip_costs({"val_loss": 2.0, "generating": 2.0}, [
        {"name": f"slip {n}", "deck": "A", "notice": notice, "val_loss": 1.0 + n / 9,
         "generating": 2.0 + n} for n, notice in enumerate(("shapes", "gradients", "reference"))])
    yield plots.audit_errors([{"name": f"a rather long name of a case, number {n}", "kind": "layer",
                               "max_error": 10.0 ** -n, "bound": 1e-3, "ok": n > 3}
                              for n in range(14)])
    yield plots.gradient_norm_curve(metrics)
    yield plots.loss_curve(metrics)


@pytest.mark.parametrize("size", slow_among(SIZES, ["slide"]))
@pytest.mark.parametrize("name", quick_among(DRAWN, ["alibi", "sinusoids"]))
def test_texts_of_figures_do_not_overlap(monkeypatch, name, size):
    with SIZES[size]():
        assert list(faults(figures.DRAWN[name](None), monkeypatch)) == []


@pytest.mark.slow
@pytest.mark.parametrize("size", slow_among(SIZES, ["slide"]))
def test_texts_of_pictures_of_models_do_not_overlap(monkeypatch, rng, size):
    with SIZES[size]():
        for picture in examples(rng):
            assert list(faults(picture, monkeypatch)) == []


def test_overlaps_and_texts_outside_are_found(monkeypatch):
    ax = plots.axes.new_axes((4, 3))
    ax.set(xticks=[], yticks=[])
    for x, text in ((0.5, "one"), (0.52, "two"), (1.2, "three")):
        ax.text(x, 0.5, text).set_in_layout(False)
    assert list(faults(ax, monkeypatch)) == [("two", "one"), ("three", "is outside")]
