"""The task of language models: predict every next character of a text."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.datasets import DOCUMENTATION, DataError, load_corpus
from numformer.functional import CAUSAL
from numformer.generation import generate
from numformer.plots.views import Reading
from numformer.tasks.task import Task
from numformer.tokenizers import CharacterTokenizer
from numformer.training import BlockStream, consecutive_blocks

SAMPLE_TOKENS = 160
MAP_TOKENS = 32


class TextTask(Task):
    """Train on the first nine tenths of a text; the loss is the mean over all characters of the last tenth."""

    name = "text"
    kinds = ("Decoder", "RecurrentLanguageModel", "ConvolutionLanguageModel")
    unit = "nats a character"
    from_the_data = frozenset({"vocab_size"})
    default_data = DOCUMENTATION

    def load(self, data):
        return load_corpus(data)

    def tokenizer(self, material):
        return CharacterTokenizer.of(material.text)

    def stream(self, material, tokenizer, config, training):
        text, held_out = material.split()
        T = config.context_length
        for name, part in (("first nine tenths, to train on,", text), ("last tenth, to validate on,", held_out)):
            if len(part) <= T:
                raise DataError(f"{material.name} is too short: its {name} are {len(part)} characters, but a block of context_length={T} "
                                f"and its last target are {T + 1}; give at least {10 * (T + 1)} characters, or a smaller --context-length.")
        return BlockStream(tokenizer.encode(text), T, training.batch_size * training.accumulation, training.seed)

    def validation(self, material, tokenizer, config, blocks=None):
        try:
            return consecutive_blocks(tokenizer.encode(material.split()[1]), config.context_length, blocks=blocks)
        except ValueError as error:
            raise DataError(f"the last tenth of {material.name} cannot be measured: {error}") from None

    def sample(self, model, tokenizer, rng):
        ids = generate(model, tokenizer.encode(first_prompt(tokenizer)), SAMPLE_TOKENS, rng, temperature=0.8)
        return tokenizer.decode(list(ids)).strip("\n")

    def reading(self, model, tokenizer, text=None):
        """A text; or what the model writes, where none is given."""
        room = model.config.context_length
        if text is None:
            prompt = tokenizer.encode(first_prompt(tokenizer))
            ids = [*prompt, *generate(model, prompt, min(MAP_TOKENS, room) - 1, np.random.default_rng(0), temperature=0.8)]
        else:
            ids = tokenizer.encode(text).tolist()
        if not 1 <= len(ids) <= room:
            raise ValueError(f"a text of {len(ids)} characters does not fit a model that reads 1 to {room}; choose another part of it.")
        return Reading((np.array([ids]),), list(tokenizer.decode(ids)))

    def pictures(self, model, tokenizer):
        """The attention of the last block to a text that the model wrote."""
        from numformer.plots import attention_map

        if not hasattr(model, "attention_weights"):
            return {}
        (ids,), tokens, *_ = self.reading(model, tokenizer)
        with one_blas_thread():
            weights = model.attention_weights(ids)[-1][0].mean(axis=0)    # (T, T)
        return {"attention.png": attention_map(weights, tokens, CAUSAL.dense(*weights.shape),
                                               title="Attention of the last block, mean of its heads")}


def first_prompt(tokenizer):
    """What to begin with where no prompt was given: a new line, or else the first character there is."""
    return "\n" if "\n" in tokenizer.characters else tokenizer.characters[0]
