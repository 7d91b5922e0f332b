"""Small runs of several kinds that the tests of `plot`, `explore` and `figures` share."""

import pytest

from command import SMALL, TEXT, small_pictures                       # noqa: F401
from numformer.cli import main
from numformer.recipes.text_to_text import t5

STEPS = ["--steps", "4", "--eval-every", "2", "--save-every", "0", "--threads", "1"]


@pytest.fixture(autouse=True)
def few_t5_examples(monkeypatch):
    """T5 on a small dataset, in the tests of this folder only."""
    with monkeypatch.context() as patch:
        patch.setattr(t5, "TRAINING_PAIRS", 200)
        patch.setattr(t5, "HELD_OUT", 5)
        patch.setattr(t5.InstructionTask, "longest", 6)
        t5._pairs.cache_clear()
        yield
    t5._pairs.cache_clear()


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Small runs by name, each trained on first use."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    text = folder / "text.txt"
    text.write_text(TEXT)
    words = {
        "decoder": ["--preset", "gpt", "--data", text, *SMALL, "--n-layers", "2"],
        "alibi": ["--preset", "gpt", "--data", text, *SMALL, "--positions", "alibi"],
        "relu": ["--preset", "gpt", "--data", text, *SMALL, "--feedforward", "relu"],
        "lstm": ["--preset", "lstm", "--data", text, "--d-model", "8", "--context-length", "16",
                 "--batch-size", "4"],
        "ngram": ["--preset", "ngram", "--data", text],
        "t5": ["--preset", "t5", "--n-layers", "2", "--n-heads", "2", "--d-model", "16",
               "--batch-size", "8", "--warmup-steps", "2"],
        "vit": ["--preset", "vit", "--n-layers", "2", "--n-heads", "2", "--d-model", "8",
                "--batch-size", "8", "--warmup-steps", "2"],
    }

    def run(name):
        if name not in made:
            made[name] = folder / name
            assert main([str(word) for word in ("train", "--out", made[name], *words[name],
                                                *STEPS)]) == 0
        return made[name]

    return run
