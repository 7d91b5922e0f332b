"""Sizes come from flags and files, and may be of any magnitude: each ends at once, in one line.

All fields of all configs are found by reflection, so a new one is tried as well.
"""

import tracemalloc
from dataclasses import MISSING, fields
from typing import get_args

import numpy as np
import pytest

from marks import every
from numformer.analysis.counting import model_of_shapes
from numformer.config import Config
from numformer.functional.positions.rotary_scaling import scaled_frequencies
from numformer.models import KINDS, DecoderConfig
from numformer.parameter import Layer
from numformer.recipes import PRESETS, RECIPES, Recipe
from numformer.training import TrainingConfig

HUGE = 10**6, 2**63, 10**400, -10**400
FLOATS = float("nan"), float("inf"), 1e300, -1.0, -1e300, 1e39, 1e18, 1e-300, 5e-324
WRONG = -1, True, "7", 2.0, [7], {}
MIB = 2**20


def small_config(kind):
    """A config of the kind as a preset has it, or of its published sizes, as a dict."""
    config = KINDS[kind][1]
    sizes = next((preset.model for preset in PRESETS.values() if preset.kind == kind),
                 dict(n_layers=1, n_heads=2, d_model=16))
    return {field.name: 16 for field in fields(config) if field.default is MISSING} | sizes


def hostile_values(field, value):
    """Values of a field that a file may hold: for numbers, and for lists of numbers as text."""
    kinds = {field.type, *get_args(field.type)}
    if int in kinds:
        return (*HUGE, *FLOATS, *WRONG[:5])
    if float in kinds:
        return (*FLOATS, 10**9, 10**400, 10**5000, True, "0.5", [0.5])
    if isinstance(value, str) and value.replace(",", "").isdigit():
        parts = value.split(",")
        return [*(",".join([*parts[:-1], str(size)]) for size in HUGE), ",".join(parts * 10**4)]
    return ()


def configs():
    for kind in KINDS:
        for field in fields(KINDS[kind][1]):
            yield kind, field


@pytest.mark.parametrize("kind, field", every(3, [
    pytest.param(kind, field, id=f"{kind}-{field.name}") for kind, field in configs()]))
def test_every_field_of_every_model_is_small_or_refused(kind, field):
    options = small_config(kind)
    tracemalloc.start()
    try:
        for value in hostile_values(field, options.get(field.name, field.default)):
            try:
                config = KINDS[kind][1].from_dict({**options, field.name: value})
                if issubclass(KINDS[kind][0], Layer):
                    model_of_shapes(config, arrays=400, numbers=10**9)
            except ValueError as error:
                text = str(error)
                assert len(text) < 400 and "\n" not in text
                names = [field.name, *fields_of(config if "config" in locals() else None)]
                assert any(name in text for name in names), text
            # of names and shapes: the arrays themselves would have 4e9 bytes
            assert tracemalloc.get_traced_memory()[1] < 64 * MIB, (field.name, value)
    finally:
        tracemalloc.stop()


def fields_of(config):
    return () if config is None else [field.name for field in fields(config)]


@pytest.mark.parametrize("config", [TrainingConfig, Recipe, *dict.fromkeys(RECIPES.values())])
def test_every_field_of_trainings_and_recipes_is_checked(config):
    required = {field.name: 1 for field in fields(config) if field.default is MISSING}
    for field in fields(config):
        for value in hostile_values(field, field.default):
            try:
                made = config.from_dict({**required, field.name: value})
            except ValueError as error:
                assert field.name in str(error) and len(str(error)) < 600
            else:
                assert type(getattr(made, field.name)) in (int, float)


SCALINGS = {"linear": {}, "llama3": dict(low_frequency_factor=1.0, high_frequency_factor=4.0),
            "yarn": dict(beta_fast=32.0, beta_slow=1.0, truncate=True, attention_factor=1.0)}


@pytest.mark.parametrize("kind", SCALINGS)
def test_every_number_of_a_rotary_scaling_is_checked(kind):
    """It is refused in one line, or the frequencies are finite; warnings are errors."""
    options = dict(kind=kind, factor=2.0, **SCALINGS[kind])
    if kind != "linear":
        options["original_length"] = 16
    for name in options:
        for value in (*HUGE, 10**5000, *FLOATS, 1e308, 1e-320, True, "7", None, [2.0], {}):
            scaling = {**options, name: value}
            try:
                frequencies, factor = scaled_frequencies(8, 10000.0, scaling)
                DecoderConfig(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=16,
                              positions="rotary", rotary_scaling=scaling)
            except (ValueError, TypeError) as error:
                assert any(each in str(error) for each in options) and len(str(error)) < 400
            else:
                assert np.isfinite(frequencies).all() and 1e-9 <= factor < 1e9


@pytest.mark.parametrize("kind", [kind for kind in KINDS if any(
    field.name == "dtype" for field in fields(KINDS[kind][1]))])
@pytest.mark.parametrize("dtype, large", [("float32", 2e19), ("float64", 2e150)])
def test_a_number_whose_square_the_dtype_does_not_hold_is_refused(kind, dtype, large):
    options = small_config(kind) | {"dtype": dtype}
    for field in fields(KINDS[kind][1]):
        if field.type in (float, float | None):
            with pytest.raises(ValueError, match=f"{field.name}=.*must be"):
                KINDS[kind][1].from_dict({**options, field.name: large})
            if field.metadata["rule"].above == 0:
                with pytest.raises(ValueError, match=f"{field.name}=.*must be"):
                    KINDS[kind][1].from_dict({**options, field.name: 0.1 / large})


def test_the_size_is_named_that_makes_a_model_too_large():
    for kind, option, value in (("DETR", "encoder_layers", 60_000),
                                ("Swin", "depths", "2,2,100000"),
                                ("EncoderDecoder", "n_encoder_layers", 60_000),
                                ("ConvolutionClassifier", "hidden", "100000000000,16"),
                                ("VisionTransformer", "n_classes", 10**15)):
        options = {**small_config(kind), option: value}
        if kind == "Swin":
            options |= dict(heads="2,2,2", d_model=8, image_size=32, patch_size=2, window=4)
        config = KINDS[kind][1].from_dict(options)
        words = f"{option}=.* is too large for a model of at most 900 arrays"
        with pytest.raises(ValueError, match=words):
            model_of_shapes(config, 900, 10**9)


def test_every_config_is_walked():
    """Configs that `KINDS`, presets and recipes name; the others are bases of them, or parts."""
    walked = {config for _, config in KINDS.values()} | {TrainingConfig, Recipe, *RECIPES.values()}

    def below(config):
        return {config, *(each for kind in config.__subclasses__() for each in below(kind))}

    for config in below(Config) - {Config}:
        if config.__module__.startswith("numformer."):
            assert any(issubclass(each, config) for each in walked), config
