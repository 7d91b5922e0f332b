"""`numformer train --help`: its flags have one type and words in all presets."""

from dataclasses import fields

import pytest

from command import call
from numformer.models import KINDS
from numformer.recipes import RECIPES
from numformer.training import TrainingConfig


def test_a_flag_has_one_type_in_all_configs():
    types = {}
    for config in (*(config for _, config in KINDS.values()), *RECIPES.values(), TrainingConfig):
        for field in fields(config):
            kind = str(field.type).replace(" | None", "").removeprefix("<class '").rstrip("'>")
            assert types.setdefault(field.name, kind) == kind


def test_the_help_of_no_preset_is_a_mistake(capsys):
    status, _, err = call(capsys, "train", "--help", "--preset", "swinn")
    assert status == 2 and "did you mean swin?" in err


def test_a_field_without_words_is_refused():
    from numformer.config import Config

    with pytest.raises(TypeError, match=r"WidthConfig: width needs a description; write width: int "
                                        r"= option"):
        class WidthConfig(Config):
            width: int = 3
