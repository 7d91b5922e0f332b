"""What is served and what is not: one table, the messages that it gives, and its page."""

import pytest

from numformer.interop import FAMILIES, save
from numformer.interop.known_families import LACKS, not_served, page
from test_folders import change, model_of, refused

SERVED = {family.model_type for family in FAMILIES.values()}


def test_sixty_families_are_known_and_none_is_in_both_tables():
    assert len(SERVED) + len(LACKS) >= 60 and not SERVED & LACKS.keys()


@pytest.mark.parametrize("name, words", [
    ("gptj", "model_type 'gptj' is not known; ours lack one norm for two branches"),
    ("swin", "ours lack a table of its weights"), ("unheard-of", "these are: bert, "),
    (["gptj"], "these are: bert, "), (None, "these are: bert, ")])
def test_a_folder_that_is_not_served_is_told_what_is_lacking(name, words, rng, tmp_path):
    save(model_of(rng), None, tmp_path / "model")
    change(tmp_path / "model", model_type=name)
    refused(tmp_path / "model", words)


def test_names_are_those_of_the_published_code():
    auto = pytest.importorskip("transformers.models.auto.configuration_auto",
                               reason="the witness, transformers, is not installed")
    unknown = (SERVED | LACKS.keys()) - auto.CONFIG_MAPPING_NAMES.keys()
    assert not unknown - {"clip_text_model", "clip_vision_model", "gemma3_text"}


def test_the_page_has_every_family_and_what_others_lack():
    text = page()
    for family in FAMILIES.values():
        assert all(name in text for name in family.architectures)
        assert f"| {family.model_type} |" in text and f"`{family.kind}`" in text
    for name, lacks in LACKS.items():
        assert f"| {name} | {lacks} |" in text
    assert "`" not in not_served("olmo") and not_served("olmo").startswith("ours lack ")
