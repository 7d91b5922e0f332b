"""Plots of training and of costs show the numbers of their arguments."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from plot_examples import METRICS, texts
from numformer import plots


def test_loss_curve_shows_training_and_validation_losses():
    metrics = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}, {"step": 2, "val_loss": 2.5},
               {"step": 3, "loss": 1.0}]
    ax = plots.loss_curve(metrics)
    each, mean, validation = ax.lines
    assert each.get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]]
    assert validation.get_xydata().tolist() == [[2, 2.5]]
    # a mean of past steps alone would lag: above a falling loss, and above its validation loss
    np.testing.assert_allclose(mean.get_ydata(), [3, 2, 1])
    assert "2.500" in validation.get_label()
    ax.figure.draw_without_rendering()
    left, right = ax.get_ylim(), ax.child_axes[0].get_ylim()
    np.testing.assert_allclose(np.array(right) * math.log(2), left)
    assert ax.get_ylabel() == "loss, nats per token"
    assert ax.child_axes[0].get_ylabel() == "bits per token"
    images = plots.loss_curve(metrics, unit="nats an image")
    assert images.child_axes[0].get_ylabel() == "bits an image"
    triplets = plots.loss_curve(metrics, unit="a triplet")
    assert triplets.get_ylabel() == "loss a triplet" and not triplets.child_axes


@pytest.mark.parametrize("curve, name", [(plots.loss_curve, "loss"),
                                         (plots.gradient_norm_curve, "gradient_norm")])
def test_the_moving_average_has_full_windows_alone(curve, name):
    """The last value is an outlier: the average does not follow it."""
    values = [2.0 + number % 2 for number in range(99)] + [0.1]
    mean = curve([{"step": n, name: value} for n, value in enumerate(values, 1)]).lines[1]
    assert mean.get_xdata().tolist() == list(range(21, 81))           # 20 values on both sides
    np.testing.assert_allclose(mean.get_ydata(), [np.mean(values[k - 21:k + 20])
                                                  for k in range(21, 81)])
    assert np.ptp(mean.get_ydata()) < 0.1


def test_curves_of_a_run_show_its_metrics():
    assert plots.learning_rate_curve(METRICS).lines[0].get_xydata().tolist() == [[1, 0.1], [2, 0.2]]
    norm = plots.gradient_norm_curve(METRICS)
    assert norm.lines[0].get_xydata().tolist() == [[1, 2], [2, 1]] and norm.get_yscale() == "log"
    ratios = plots.update_ratio_curve(METRICS)
    found = {line.get_label(): line.get_xydata().tolist() for line in ratios.lines[:2]}
    assert found == {"w": [[2, 0.2]], "head.w": [[2, 0.5]]}, "the median over layers"


def test_facts_of_steps_are_drawn():
    metrics = [{"step": step, "loss": 1.0, "learning_rate": 0.1, "gradient_norm": 1.0,
                "facts": {"reward": step / 4, "length": 3.0}} for step in (1, 2)]
    ax = plots.fact_curve([{"step": 1, "loss": 1.0}, *metrics[1:]], "reward")
    assert ax.lines[0].get_xydata().tolist() == [[2, 0.5]] and ax.get_ylabel() == "reward"
    task = SimpleNamespace(unit_of=lambda tokenizer: "nats per token")
    run = SimpleNamespace(metrics=lambda: metrics, task=task, tokenizer=None)
    figure = plots.PICTURES["training"].draw(run)
    assert [ax.get_title() for ax in figure.axes if not ax.get_title().startswith("Loss")][-2:] == [
        "reward", "length"]


def test_gradient_flow_and_step_errors_show_their_numbers():
    ax = plots.gradient_flow({"pre": [1.0, 1.1], "post": [0.1, 10.0]})
    assert [line.get_xydata().tolist() for line in ax.lines] == [
        [[1, 1], [2, 1.1]], [[1, 0.1], [2, 10]]]
    errors = {"steps": [1e-8, 1e-3], "central_difference": [1e-6, 1e-7],
              "complex_step": [0.0, 1e-16]}
    ax = plots.step_error_curve(errors)
    assert [line.get_label() for line in ax.lines] == ["central difference", "complex step"]
    assert ax.lines[1].get_ydata().tolist() == [1e-17, 1e-16]
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_attention_costs_show_times_memory_and_powers():
    figure = plots.attention_costs([64, 128], {"all": [1.0, 4.0], "tiles": [1.0, None]},
                                   {"all": [2 ** 20, 2 ** 22], "tiles": [0, 2 ** 20]})
    times, memory = figure.axes
    assert times.lines[0].get_xydata().tolist() == [[64, 1], [128, 4]]
    assert times.lines[1].get_xydata().tolist() == [[64, 1]]
    assert memory.lines[0].get_ydata().tolist() == [1, 4]
    assert [line.get_label() for line in times.lines] == ["all", "tiles", "as T", "as T²"]
    assert times.lines[2].get_xydata().tolist() == [[64, 2], [128, 4]]
    assert times.lines[3].get_xydata().tolist() == [[64, 1], [128, 4]]


def test_areas_of_the_treemap_are_measured_shares():
    rows = [{"quantity": quantity, "part": part, "formula": formula, "predicted": predicted,
             "measured": measured} for quantity, part, formula, predicted, measured in (
        ("parameters", "head", "V C", 12, 12), ("parameters", "attention", "4 C^2", 36, 36),
        ("flops", "head", "2 V C", 24, 25), ("flops", "norms", "C", 1, 1))]
    first, second = plots.cost_treemap(rows).axes
    areas = [patch.get_width() * patch.get_height() for patch in first.patches[::2]]
    np.testing.assert_allclose(areas, [0.75, 0.25])
    assert [text.split("\n")[:2] for text in texts(first)] == [["attention", "36 (75%)"],
                                                               ["head", "12 (25%)"]]
    assert first.get_title() == "parameters: 48"
    assert second.get_title() == "FLOPs per token: 26\n(formulas: 25)"
    assert len(second.patches) == 2 and second.get_xlabel() == "norms 3.8%"


def test_damaged_metrics_raise_an_error():
    with pytest.raises(ValueError, match="damaged"):
        plots.loss_curve([{"step": 1, "loss": None}])


def test_unknown_numbers_are_left_out_of_the_legend():
    assert plots.activation_histograms({"a": np.ones(3)}, dead={}).lines[0].get_label() == "a"
    growth = plots.growth_of_time({"B": {1: 1.0, 2: 2.0}}, {})
    assert growth.lines[0].get_label().startswith("batch")


def test_bars_of_a_breakdown_are_shares_with_their_milliseconds():
    """The longest first; small ones, and the rest, in the last bar."""
    cases = {"small": {"linear": 3.0, "gelu": 0.5, "tiny": 0.001, "rest": 1.499},
             "large": {"linear": 60.0, "attention": 40.0}}
    ax = plots.breakdown_bars(cases)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["linear", "attention", "gelu", "rest"]
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [60, 0, 10, 30, 60, 40, 0, 0], atol=1e-9)
    assert texts(ax) == ["3 ms", "", "0.5 ms", "1.5 ms", "60 ms", "40 ms", "", ""]
    assert {bar.get_hatch() for bar in ax.patches} == {None, "//"}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["small: 5 ms",
                                                                         "large: 100 ms"]
    with pytest.raises(ValueError, match="breakdowns is empty"):
        plots.breakdown_bars({"none": {}})
