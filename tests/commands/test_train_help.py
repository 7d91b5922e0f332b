"""`numformer train --help` lists the presets; its flags have one type and words in all of them."""

from dataclasses import fields

import pytest

from command import call
from numformer.commands.shared.train_help import LINES
from numformer.models import KINDS
from numformer.recipes import FAMILIES, PRESETS, RECIPES
from numformer.training import TrainingConfig


def test_a_flag_has_one_type_in_all_configs():
    types = {}
    for config in (*(config for _, config in KINDS.values()), *RECIPES.values(), TrainingConfig):
        for field in fields(config):
            kind = str(field.type).replace(" | None", "").removeprefix("<class '").rstrip("'>")
            assert types.setdefault(field.name, kind) == kind


@pytest.mark.parametrize("columns", ["60", "200"])
def test_without_a_preset_it_lists_them_by_family_on_a_screen(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    status, out, err = call(capsys, "train", "--help")
    lines = out.splitlines()
    assert status == 0 and err == "" and len(lines) <= LINES
    assert max(map(len, lines)) <= 100
    told = " ".join(out.partition("\npresets (default: tiny)\n")[2].split())
    assert [name for family in FAMILIES for name in family.PRESETS] == list(PRESETS)
    for family in FAMILIES:
        assert f"{family.__doc__.rstrip('.')}: {', '.join(family.PRESETS)}" in told
    assert "--n-layers" not in out and lines[-1].endswith("numformer train --preset P --help")


def test_the_help_of_no_preset_is_a_mistake(capsys):
    status, _, err = call(capsys, "train", "--help", "--preset", "swinn")
    assert status == 2 and "did you mean swin?" in err


def test_a_field_without_words_is_refused():
    from numformer.config import Config

    with pytest.raises(TypeError, match=r"WidthConfig: width needs a description; write width: int "
                                        r"= option"):
        class WidthConfig(Config):
            width: int = 3
