"""Language models of characters: `tiny`, nanoGPT's two, and the speedrun."""

import numpy as np

from numformer.analysis import attention_by_layer
from numformer.analysis.attention_views import Reading
from numformer.data import (
    DOCUMENTATION, BlockStream, CharacterTokenizer, DataError, consecutive_blocks, load_corpus)
from numformer.functional import CAUSAL, IGNORE_INDEX
from numformer.generation import generate
from numformer.layers import MultiHeadAttention
from numformer.parameter import Layer
from numformer.recipes.preset import Preset
from numformer.recipes.task import Task

SAMPLE_TOKENS = 160
MAP_TOKENS = 32


class TextTask(Task):
    """Train on the first nine tenths of a text; the loss is the mean over the last tenth."""

    name = "text"
    unit = "nats per character"
    from_the_data = frozenset({"vocab_size"})
    default_data = DOCUMENTATION

    def load(self, data):
        return load_corpus(data)

    def tokenizer(self, dataset):
        return CharacterTokenizer.of(dataset.text)

    def unit_of(self, tokenizer):
        return self.unit if isinstance(tokenizer, CharacterTokenizer) else "nats per token"

    def n_characters(self, batches, tokenizer):
        targets = np.concatenate([batch.targets.ravel() for batch in batches])
        return tokenizer.n_characters(targets[targets != IGNORE_INDEX])

    def _tokens(self, tokenizer):
        """What the tokens are called in errors."""
        return "characters" if isinstance(tokenizer, CharacterTokenizer) else "tokens"

    def stream(self, dataset, tokenizer, config, training):
        ids, held_out = map(tokenizer.encode, dataset.split())
        T, tokens = config.context_length, self._tokens(tokenizer)
        for name, part in (("first nine tenths, to train on,", ids),
                           ("last tenth, to validate on,", held_out)):
            if len(part) <= T:
                raise DataError(f"{dataset.name} is too short: its {name} are {len(part)} "
                                f"{tokens}, but a block of context_length={T} and its last "
                                f"target are {T + 1}; give at least {10 * (T + 1)} {tokens}, "
                                "or a smaller --context-length.")
        batch_size = training.batch_size * training.accumulation
        return BlockStream(ids, T, batch_size, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        try:
            held_out = tokenizer.encode(dataset.split()[1])
            return consecutive_blocks(held_out, config.context_length, blocks=blocks,
                                      first=tokenizer.first_ids)
        except ValueError as error:
            raise DataError(f"the last tenth of {dataset.name} cannot be measured: "
                            f"{error}") from None

    def sample(self, model, tokenizer, rng):
        prompt = tokenizer.prompt_ids(first_prompt(tokenizer))
        ids = generate(model, prompt, SAMPLE_TOKENS, rng, temperature=0.8)
        return tokenizer.decode(list(ids)).strip("\n")

    def source_ids(self, tokenizer, text):
        return tokenizer.prompt_ids(text)

    def reading(self, model, tokenizer, text=None):
        """A text, or one that the model generates."""
        most = model.config.context_length
        if text is None:
            prompt = tokenizer.prompt_ids(first_prompt(tokenizer))
            rng = np.random.default_rng(0)
            n = min(MAP_TOKENS, most) - len(prompt)
            ids = [*prompt, *generate(model, prompt, n, rng, temperature=0.8)]
        else:
            ids = self.source_ids(tokenizer, text).tolist()
        if not 1 <= len(ids) <= most:
            raise ValueError(f"a text of {len(ids)} {self._tokens(tokenizer)} does not fit a model "
                             f"that reads 1 to {most}; choose another part of it.")
        return Reading((np.array([ids]),), [tokenizer.decode([token]) for token in ids])

    def held_out_ids(self, load, tokenizer, most):
        """Those after the first paragraph."""
        text = load().split()[1]
        start = text.find("\n\n", 0, len(text) // 2) + 2
        return np.asarray(tokenizer.prompt_ids(text[start if start > 1 else 0:])[:most])

    def pictures(self, model, tokenizer):
        """The attention of the last block to a generated text."""
        from numformer.plots import attention_map

        if not isinstance(model, Layer) or not any(
                isinstance(layer, MultiHeadAttention) for _, layer in model.named_layers()):
            return {}
        (ids,), tokens, *_ = self.reading(model, tokenizer)
        *_, weights = attention_by_layer(model, ids).values()
        weights = weights[0].mean(axis=0)                             # (T, T)
        title = "Attention of the last block, mean of its heads"
        return {"attention.png": attention_map(weights, tokens, CAUSAL.dense(*weights.shape),
                                               title=title)}


def first_prompt(tokenizer):
    """The default prompt: a newline, or else the first token that is not special."""
    try:
        if tokenizer.decode(tokenizer.encode("\n")) == "\n":
            return "\n"
    except ValueError:                                # an unknown character
        pass
    return tokenizer.decode([len(tokenizer.special)])


TEXT = TextTask()
_FAST = dict(n_heads=4, d_model=128, norm="rms_norm", positions="rotary", query_key_norm=True,
             feedforward="relu_squared", bias=False, init_std=0.03, ngrams=4)
_FAST_TRAINING = dict(
    optimizer="muon", batch_size=12, min_learning_rate=0.0, schedule="linear", momentum=0.95,
    weight_decay=0.0, eval_every=0, save_every=0)

PRESETS = {
    "tiny": Preset(
        dict(context_length=64, n_layers=3, n_heads=4, d_model=96, norm="rms_norm",
             feedforward="swiglu", positions="rotary", query_key_norm=True, bias=False,
             init_std=0.08),
        dict(steps=640, batch_size=16, learning_rate=4e-3, min_learning_rate=2e-4, warmup_steps=30,
             eval_every=160, save_every=160),
        TEXT,
    ),
    # A small `tiny` for a browser's Python, which has one thread and no BLAS
    "browser": Preset(
        dict(context_length=64, n_layers=2, n_heads=4, d_model=64, norm="rms_norm",
             feedforward="swiglu", positions="rotary", query_key_norm=True, bias=False,
             init_std=0.08),
        dict(steps=200, batch_size=8, learning_rate=1e-2, min_learning_rate=5e-4, warmup_steps=10,
             eval_every=0, save_every=0),
        TEXT,
    ),
    # nanoGPT's character model for a CPU (Karpathy 2022), with the tanh GELU of GPT-2's code
    "nanogpt-cpu": Preset(
        dict(context_length=64, n_layers=4, n_heads=4, d_model=128, bias=False),
        dict(steps=2000, batch_size=12, learning_rate=1e-3, min_learning_rate=1e-4,
             warmup_steps=100, eval_every=500, save_every=250),
        TEXT,
    ),
    # nanoGPT's character model for a GPU: hours on a laptop
    "nanogpt": Preset(
        dict(context_length=256, n_layers=6, n_heads=6, d_model=384, bias=False, dropout=0.2),
        dict(steps=5000, batch_size=64, shards=8, learning_rate=1e-3, min_learning_rate=1e-4,
             warmup_steps=100, eval_every=250, save_every=50),
        TEXT,
    ),
    # The fastest run to the loss of nanogpt-cpu, 1.898: embeddings of n-grams of two to four
    # characters do most of the work, a single block the rest
    "speedrun": Preset(
        dict(_FAST, context_length=64, n_layers=1),
        dict(_FAST_TRAINING, steps=100, learning_rate=0.01, warmup_steps=5, muon_ratio=2.0),
        TEXT, "NGramDecoder", recipe=dict(zero_branches=True),
    ),
    # The same, for two thirds of the time that PyTorch needs for nanogpt-cpu: below 1.58
    "speedrun-long": Preset(
        dict(_FAST, context_length=128, n_layers=4),
        dict(_FAST_TRAINING, steps=650, learning_rate=0.006, warmup_steps=10, muon_ratio=3.0),
        TEXT, "NGramDecoder", recipe=dict(zero_branches=True),
    ),
}
