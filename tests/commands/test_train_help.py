"""`numformer train --help` of every preset: its own options, words and defaults."""

import re
from dataclasses import MISSING, fields

import pytest

from command import call
from numformer.commands.shared.flags import flag_of
from numformer.commands.shared.train_help import LINES
from numformer.models import KINDS
from numformer.recipes import PRESETS, RECIPES, Recipe
from numformer.training import TrainingConfig


def help_of(capsys, *words):
    status, out, err = call(capsys, "train", *words)
    assert status == 0 and err == ""
    return out


def configs_of(preset):
    return KINDS[preset.kind][1], RECIPES.get(preset.kind, Recipe), TrainingConfig


def described(text):
    """{flag: what is said of it}, of the help of all options."""
    entries = re.split(r"^  (?=--)", text, flags=re.MULTILINE)[1:]
    return {entry.split()[0].replace("[no-]", ""): " ".join(entry.split("\n\n")[0].split())
            for entry in entries}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_its_own_options_in_its_own_words(capsys, name):
    preset = PRESETS[name]
    entries = described(help_of(capsys, "--preset", name, "--help-all"))
    given = {**preset.model, **preset.recipe, **preset.training}
    own = set()
    for config in configs_of(preset):
        for field in fields(config):
            if field.name in preset.task.from_the_data | preset.task.unused:
                continue
            own.add(flag_of(field.name))
            text, rule = entries[flag_of(field.name)], field.metadata["rule"]
            assert " ".join(rule.help.split()) in text
            assert all(str(choice) in text for choice in rule.choices or ())
            value = given.get(field.name, field.default)
            if value not in (MISSING, None):
                shown = ("no", "yes")[value] if isinstance(value, bool) else value
                assert text.endswith(f"[{shown}]")
    general = {"--help-all", "--preset", "--data", "--out", "--from", "--resume", "--stop-at",
               "--snapshots", "--threads", "--json"}
    assert entries.keys() == own | general


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("columns", ["60", "200"])
def test_the_short_help_fits_a_screen(capsys, monkeypatch, name, columns):
    monkeypatch.setenv("COLUMNS", columns)
    lines = help_of(capsys, "--help", f"--preset={name}").splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= 100
    assert lines[-1].endswith(f"--preset {name} --help-all")
    shown = {line.split()[0].replace("[no-]", "") for line in lines if line.startswith("  --")}
    sizes = {flag_of(name) for name in PRESETS[name].model} & {"--n-layers", "--d-model"}
    assert shown >= sizes | {"--steps", "--data", "--out", "--json"}


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
