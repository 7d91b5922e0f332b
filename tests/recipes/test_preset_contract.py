"""What every preset keeps: its help and flags, and a run that resumes, is measured, sampled, drawn.

It is trained at tiny sizes, which follow from its fields; see `tiny_presets`. What a preset learns,
and what its task measures, have tests of their own.
"""

import math
import re
import shlex
from dataclasses import MISSING, fields

import pytest

from command import call, content, last_json
from marks import quick_among
from numformer.commands.shared.flags import flag_of
from numformer.commands.shared.train_help import LINES
from numformer.models import KINDS, Decoder
from numformer.recipes import PRESETS, RECIPES, Recipe, TextTask
from numformer.training import TrainingConfig
from tiny_presets import start_flags, tiny_flags

VALUES = {flag_of(name): value for name, value in TrainingConfig(steps=1).as_dict().items()}
OPTIONS = {field.name for _, config in KINDS.values() for field in fields(config)}
# a decoder and an encoder-decoder; each other preset is slow
QUICK = ["tiny", "translate"]
# figures between 0 and 1, by task
FRACTIONS = {
    "recall": "recall last_value random_value most_frequent_value without_matching chance",
    "dates": "exact exact_8_to_11 exact_12_to_15 exact_16_to_19 exact_20_to_39",
    "translate": "exact exact_greedily", "instructions": "exact reverse sort add french",
    "spans": "span_accuracy n_gram_accuracy", "tale-spans": "span_accuracy n_gram_accuracy",
    "denoise": "restored_masked copied_masked restored_infilled copied_infilled restored_permuted "
    "copied_permuted", "tale-infilling": "restored_infilled copied_infilled",
    "music": "form bars second_phrase returns tonic all_rules copied n_gram_form n_gram_bars "
    "n_gram_second_phrase n_gram_returns n_gram_tonic n_gram_all_rules n_gram_copied",
    "summarize": "exact rouge_l rouge_l_of_the_first_sentence rouge_l_of_the_best_sentence",
    "topics": "accuracy", "few-topics": "accuracy", "gpt-topics": "accuracy",
    "taught-topics": "accuracy", "passages": "recall_at_1 recall_at_1_before",
    "pronouns": " ".join(f"{name}{when}" for when in ("", "_before") for name in (
        "exact", "meant", "nearest_meant", *(f"{figure}_{kind}" for kind in ("it", "she_he")
                                             for figure in ("nearest_meant", "encoder_head",
                                                            "cross_head")))),
    "senses": " ".join(f"{name}{when}" for when in ("", "_before") for name in (
        "exact", "sense", "sense_of_embedding", "bank_of_embedding", "sense_of_vector",
        "bank_of_vector")),
    "digit-questions": "exact question_alone nearest_picture nearest_digits",
    "forecasts": "coverage coverage_wanted",
    "point-clouds": "accuracy nearest_profile nearest_cloud moved_by_another_order",
    **dict.fromkeys(("digits", "digits-on-canvas"), "accuracy nearest_neighbour_accuracy"),
    "world-masked": "masked_accuracy most_frequent_accuracy",
    "pos-tags": "accuracy macro_f1 accuracy_of_the_baseline macro_f1_of_the_baseline",
    "entities": "entity_f1 entity_f1_of_the_baseline",
    **dict.fromkeys(("sums", "sums-rewards"), "exact exact_sampled with_steps"),
    **dict.fromkeys(("carry", "carry-rewards"), "exact exact_sampled"),
    "answers": "exact token_f1 exact_of_the_baseline token_f1_of_the_baseline",
    "entailment": "accuracy majority_accuracy hypothesis_accuracy overlap_accuracy"}
PICTURES = {                                          # beside that of the loss
    "seq2seq": "alignment", "translate": "alignment", "summarize": "alignment",
    "vit": "attention positions", "swin": "attention-1", "swin-unshifted": "attention-1",
    "detr": "boxes queries", "clip": "similarity", "pixels": "samples",
    "vqa": "attention", "forecast": "forecast", "points": "orders",
    "translate-pronouns": "alignment pronouns", "translate-senses": "alignment senses"} | {
        name: "attention" for name, preset in PRESETS.items()
        if isinstance(preset.task, TextTask) and issubclass(KINDS[preset.kind][0], Decoder)}
# of samples; a prompt that does not fit, and what is said of it
PROMPTS = {
    "ngram": "the", "lstm": "the", "tiny": "the", "library-gpt": "The value", "recall": "hFcAh",
    "music": "X:1\nM:3/4\nK:G\n", "translate": "ninety-seven", "vqa": "what is 3+7?",
    "t5": "reverse: abc", "t5-spans": "The <0> of a <1>.",
    "bart": "The [MASK] of a list.", "summarize": "summarize: tom had a ball.",
    "bert": "The [MASK] of a[MASK].", "world-bert": "tom had a [MASK].",
    "gpt-topics": "A list of names.", "topics": "A list of names.", "sbert": "A list of names.",
    "pos-tags": "mark saw a mark.", "entities": "mr reed saw miss hill near the old mill.",
    "sums": "340201?", "carry-grpo": "76+83?",
    "answers": "who had a ball? tom had a ball.",
    "entailment": "tom gave a ball to anna. anna has the ball now."}
REFUSED_PROMPTS = {
    "sums": ("34?", "a prompt of sums has 7 characters"), "carry-grpo": ("abcdef", "--prompt: "),
    "recall": ("hF" * 20, "does not fit this model"), "translate": ("douzaine", "--prompt: "),
    "t5": ("REVERSE", "--prompt: "), "summarize": ("xylophone", "--prompt: "),
    "bart": ("", "--prompt"), "t5-spans": ("", "--prompt"),
    "bert": ("very " * 31, "too long for this model, which reads 30; shorten it"),
    "topics": ("very " * 31, "too long for this model, which reads 30; shorten it"),
    "sbert": ("very " * 31, "too long for this model, which reads 30; shorten it"),
    "vit": ("seven", "VisionTransformer cannot answer a prompt; leave --prompt out.")}


@pytest.mark.parametrize("name", quick_among(PRESETS, ["translate"]))
def test_a_run_resumes_to_the_byte_and_every_verb_takes_it(name, text, few_examples, capsys,
                                                           tmp_path):
    preset, whole, parts = PRESETS[name], tmp_path / "whole" / "run", tmp_path / "parts" / "run"
    argv = ["train", *tiny_flags(name), *start_flags(name, tmp_path)]
    argv += [] if preset.task.default_data is None else ["--data", text]
    status, said, err = call(capsys, *argv, "--out", whole, "--json")
    result = last_json(said)
    assert status == 0 and result["steps"] == 4 and "validation " in err
    following = said.partition("\nNext:\n")[2].splitlines()[:-1]
    assert call(capsys, *argv, "--out", parts, "--stop-at", 3, "--threads", 1)[0] == 0
    assert call(capsys, "train", "--out", parts, "--resume")[0] == 0
    assert content(parts) == content(whole)
    assert ({path.stem for path in whole.glob("*.png")}
            == {"loss", *PICTURES.get(name, "").split()})

    status, said, _ = call(capsys, "eval", whole, "--json")
    figures = last_json(said)
    assert status == 0 and figures["val_loss"] == result["val_loss"] > 0 and figures["tokens"] > 0
    fractions = FRACTIONS.get(preset.task.name, "").split()
    assert all(0 <= figures[figure] <= 1 for figure in fractions)
    if figures.get("characters") == figures["tokens"]:
        assert figures["bits_per_character"] == pytest.approx(figures["val_loss"] / math.log(2))
    for claim in (*preset.claims, *(each for own in preset.claims_from.values() for each in own)):
        assert {claim.figure, claim.beats or claim.figure} <= figures.keys()

    first, again, other = (call(capsys, "sample", whole, "--seed", seed) for seed in (0, 0, 1))
    assert first[0] == 0 and first[1].strip() and first[1] == again[1] != other[1]
    if name in PROMPTS:
        status, said, _ = call(capsys, "sample", whole, "--prompt", PROMPTS[name], "--json")
        assert status == 0 and last_json(said).keys() >= {"text", "tokens", "seconds"}
    if name in REFUSED_PROMPTS:
        prompt, words = REFUSED_PROMPTS[name]
        status, _, err = call(capsys, "sample", whole, "--prompt", prompt)
        assert status == 2 and words in err and err.count("\n") == 1
    status, said, _ = call(capsys, "count", whole, "--json")
    assert status == 0 and last_json(said)["parameters"] == result["parameters"] > 0
    assert following
    for line in following:
        words = shlex.split(line, comments=True)
        assert words[0] == "numformer" and call(capsys, *words[1:])[0] == 0, line


def configs_of(preset):
    return KINDS[preset.kind][1], RECIPES.get(preset.kind, Recipe), TrainingConfig


@pytest.mark.parametrize("name", PRESETS)
def test_flags_that_do_not_fit_are_refused(name, capsys, tmp_path):
    preset = PRESETS[name]
    own = {field.name for config in configs_of(preset) for field in fields(config)}
    wrong = {flag_of(min(OPTIONS - own - preset.task.from_the_data)):
             f"is not an option of {preset.kind}"}
    wrong |= {flag_of(field): f"unknown flag {flag_of(field)}"
              for field in preset.task.from_the_data}
    wrong |= {flag_of(field): f"{flag_of(field)} has no effect on {name}"
              for field in preset.task.unused}
    if preset.task.default_data is None:
        wrong["--data"] = "leave --data out"
    for flag, words in wrong.items():
        status, _, err = call(capsys, "train", "--preset", name, "--out", tmp_path / "r", flag,
                              VALUES.get(flag, 1))
        assert status in (1, 2) and words in err and err.count("\n") == 1
    assert not (tmp_path / "r").exists()


# ---- help ----------------------------------------------------------------------------------------


def help_of(capsys, *words):
    status, out, err = call(capsys, "train", *words)
    assert status == 0 and err == ""
    return out


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
                assert text.replace(" ", "").endswith(f"[{shown}]".replace(" ", ""))
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
