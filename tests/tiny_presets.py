"""Presets at tiny sizes, on small parts of their data: for tests that train them in a second."""

from contextlib import contextmanager

import pytest

from numformer.commands.shared.flags import flag_of
from numformer.commands.train import run_with
from numformer.data import library_sections
from numformer.data.corpora import library
from numformer.recipes import PRESETS, TASKS, TextTask
from numformer.recipes.library import bert, library_task
from numformer.recipes.library.library_task import LibraryTask
from numformer.recipes.numbers import forecasts, points
from numformer.recipes.text import music
from numformer.recipes.text_to_text import (
    bart, documents, pronouns, senses, seq2seq, t5, tale_documents, tales, translate)
from numformer.recipes.vision import questions
from numformer.recipes.world import answers, entailment, world_task

# fields of configs: what their sizes become, wherever a preset names them
SIZES = {
    **dict.fromkeys(("n_layers", "encoder_layers", "decoder_layers", "text_layers"), 1),
    **dict.fromkeys(("d_model", "d_hidden", "text_width", "d_embedding"), 8),
    "n_heads": 2, "n_queries": 4, "depths": "1,1", "widths": "4,6", "hidden": "8",
}
TRAINING = dict(steps=4, eval_every=2, save_every=2, eval_blocks=0, warmup_steps=1, batch_size=20,
                shards=2)
CONTEXT = 32                                          # of texts that are cut as one likes


def tiny_flags(name):
    """The flags of `numformer train` that make a preset tiny."""
    preset = PRESETS[name]
    sizes = {field: SIZES[field] for field in preset.model if field in SIZES}
    if isinstance(preset.task, (TextTask, LibraryTask)) and not isinstance(
            preset.task, world_task.WorldTask):
        sizes["context_length"] = CONTEXT
    training = {field: value for field, value in TRAINING.items()
                if field not in preset.task.unused}
    return ["--preset", name] + [str(word) for field, value in {**sizes, **training}.items()
                                 for word in (flag_of(field), value)]


def start_flags(name, folder):
    """The flags of --from with a new run in that folder, if a preset needs one; else none."""
    task = PRESETS[name].task
    if not task.begins_as_teacher:
        return []
    start = folder / "start"
    if not start.exists():
        assert run_with([*tiny_flags(task.teachers[0]), "--out", start]) == 0
    return ["--from", str(start)]


@contextmanager
def small_data():
    """The tasks as they are, with few examples of each."""
    sections = library._sections
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "_sections", lambda root: sections(root)[::4])
        few = {held_out: library_sections(held_out)[:40] for held_out in (False, True)}
        for page, counts in {
                bert: dict(ROUNDS=1, EASY_ROUNDS=1),
                pronouns: dict(TRAINING=300, HELD_OUT=12, CHOOSING=20),
                senses: dict(TRAINING=600, HELD_OUT=40, KNOWN=60),
                seq2seq: dict(TRAINING=1000, HELD_OUT=100), translate: dict(TRAINING_PAIRS=1000),
                t5: dict(TRAINING_PAIRS=400, HELD_OUT=5), bart: dict(MEASURED=4),
                documents: dict(library_sections=few.get, MERGES=50),
                music: dict(TRAINING=50, HELD_OUT=5, MEASURED=4),
                forecasts: dict(HELD_OUT=40, KNOWN=100), points: dict(HELD_OUT=40, KNOWN=50),
                questions: dict(HELD_OUT=40, KNOWN=100),
                tales: dict(TRAINING_TALES=300, HELD_OUT=12),
                tale_documents: dict(TRAINING_TALES=200, HELD_OUT=10),
                world_task: dict(VOCABULARY_TALES=300, HELD_OUT_TALES=8)}.items():
            for name, count in counts.items():
                patch.setattr(page, name, count)
        patch.setattr(translate, "held_out_numbers",
                      lambda whole=translate.held_out_numbers: whole()[::100])
        for kind in (answers.AnswerTask, entailment.EntailmentTask):
            patch.setattr(kind, "n_tales", 20)
        patch.setattr(type(PRESETS["world-bert"].task), "n_tales", 30)
        for name in ("translate", "instructions", "denoise", "spans", "summarize",
                     "pronouns", "senses"):
            patch.setattr(type(TASKS[name]), "longest", 8)
        cached = (seq2seq._pairs, pronouns._pairs, senses._pairs, translate._pairs,
                  t5._pairs, documents._documents, tales._pairs, tale_documents._documents,
                  world_task._tokenizer, library_task._tokenizer, forecasts._held_out,
                  points.held_out, music._songbook)
        for function in cached:
            function.cache_clear()
        yield
        for function in cached:
            function.cache_clear()
