"""GPT-1's way in small: a decoder pre-trained on the standard library's texts, then fine-tuned."""

from numformer.data import BlockStream, consecutive_blocks, library_text
from numformer.recipes.library.bert import LIBRARY, section_ids
from numformer.recipes.library.fine_tuning import FewTopicsTask
from numformer.recipes.library.library_task import library_tokenizer
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.task import Task
from numformer.recipes.text.characters import TextTask


class LibraryTextTask(TextTask):
    """Predict the next token of the library's texts: the sections in a row, in byte pairs."""

    name = "library-text"
    unit = "nats per token"
    default_data = None

    def load(self, data):
        return Task.load(self, data) if data is not None else library_text()

    def tokenizer(self, dataset):
        return library_tokenizer()

    def stream(self, dataset, tokenizer, config, training):
        ids = section_ids(tokenizer, held_out=False)
        return BlockStream(ids, config.context_length,
                           training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        ids = section_ids(tokenizer, held_out=True)
        return consecutive_blocks(ids, config.context_length, blocks=blocks)


class GPTTopicsTask(FewTopicsTask):
    """`few-topics` for a decoder: the class is read off the last token, the separator.

    ``--from RUN`` begins with the weights of a decoder.
    """

    name = "gpt-topics"


_MODEL = dict(n_layers=3, n_heads=4, d_model=128, positions="rotary", init_std=0.05,
              context_length=112)

PRESETS = {
    "library-gpt": Preset(
        dict(_MODEL, dropout=0.1),
        dict(LIBRARY, steps=400, learning_rate=0.01, eval_every=100, save_every=200),
        LibraryTextTask(), claims=(Claim(),)),
    "gpt-topics": Preset(
        dict(_MODEL, dropout=0.1),
        dict(LIBRARY, steps=200, learning_rate=0.003, warmup_steps=20, eval_every=50),
        GPTTopicsTask(), "DecoderClassifier", recipe=dict(lm_weight=0.5),
        claims=(more("accuracy"),),
        claims_from={"library-gpt": (more("accuracy", ahead_of=("gpt-topics",)),)}),
}
