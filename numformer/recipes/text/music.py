"""Music: a decoder that writes melodies in ABC notation, character by character."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from numformer.data import Corpus, DataError, melodies, melody_rules, melody_text
from numformer.data.corpora.melodies import BEGINNING, END, RULES
from numformer.generation import generate_batch
from numformer.models import NGramLanguageModel, NGramLanguageModelConfig
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.text.characters import TextTask
from numformer.training import mean_loss

TRAINING, HELD_OUT = 3600, 400                                        # melodies
MEASURED, LONGEST = 100, 120                          # melodies to write, and their characters
N_GRAMS = 6, 12                                       # best at prediction; one that writes better


@dataclass(frozen=True)
class Songbook(Corpus):
    """Melodies, the held-out ones last.

    Parameters
    ----------
    n_training : int
        Characters of those to train on.
    """

    n_training: int

    def split(self):
        """The melodies to train on, and the held-out ones."""
        return self.text[:self.n_training], self.text[self.n_training:]


class MusicTask(TextTask):
    """Write melodies by rule.

    The loss is the mean over held-out melodies, which are among those of training in no key. The
    measures are the shares of written melodies that keep the rules.
    """

    name = "music"
    default_data = None

    def load(self, data):
        if data is not None:
            raise DataError(f"the task {self.name} makes its own melodies; leave --data out.")
        return _songbook()

    def sample(self, model, tokenizer, rng):
        """A melody, and which rules it breaks."""
        (text,) = written(model, tokenizer, [rng])
        broken = [name.replace("_", " ") for name, kept in melody_rules(text).items() if not kept]
        return f"{text}\nbroken rules: {', '.join(broken) or 'none'}"

    def measure(self, model, tokenizer, dataset):
        """Shares of written melodies that keep each rule, and all: the model's and an n-gram's."""
        training, _ = dataset.split()
        predicting, writing = (n_gram_of(training, tokenizer, n, model.config.context_length)
                               for n in N_GRAMS)
        figures = {"n_gram_loss": mean_loss(
            predicting, self.validation(dataset, tokenizer, model.config))}
        for prefix, writer in ("", model), ("n_gram_", writing):
            rngs = [np.random.default_rng([0, row]) for row in range(MEASURED)]
            found = shares(written(writer, tokenizer, rngs), training)
            figures |= {prefix + name: share for name, share in found.items()}
        return figures


def n_gram_of(text, tokenizer, n, context_length):
    """The `NGramLanguageModel` of a text."""
    model = NGramLanguageModel(NGramLanguageModelConfig(
        vocab_size=len(tokenizer), context_length=context_length))
    model.fit(tokenizer.encode(text), n)
    return model


def written(model, tokenizer, rngs):
    """A text from each generator: to the end of a melody, or of `LONGEST` characters."""
    prompts = [tokenizer.encode(BEGINNING)] * len(rngs)
    ids = np.stack(list(generate_batch(model, prompts, LONGEST, rngs)), axis=1)   # (texts, T)
    texts = [BEGINNING + tokenizer.decode(row) for row in ids]
    return ["".join(text.partition(END)[:2]) for text in texts]


def shares(texts, training):
    """The shares of texts that keep each rule, that keep all, and that are in the training text."""
    kept = [melody_rules(text) for text in texts]
    found = {name: [each[name] for each in kept] for name in RULES}
    found |= {"all_rules": [all(each.values()) for each in kept],
              "copied": [text in training for text in texts]}
    return {name: float(np.mean(each)) for name, each in found.items()}


@lru_cache(maxsize=1)
def _songbook():
    training, held_out = (
        "".join(f"{melody_text(melody)}\n" for melody in melodies(count, held_out=part))
        for part, count in ((False, TRAINING), (True, HELD_OUT)))
    return Songbook("melodies by rule", training + held_out, len(training))


PRESETS = {
    # Enough steps to count in bars and to find the tonic, too few to copy a phrase
    "music": Preset(
        dict(context_length=128, n_layers=2, n_heads=4, d_model=64, norm="rms_norm",
             feedforward="swiglu", positions="rotary", bias=False, init_std=0.1),
        dict(steps=300, batch_size=16, optimizer="muon", muon_ratio=3.0, learning_rate=0.01,
             min_learning_rate=0.0, momentum=0.95, weight_decay=0.0, schedule="linear",
             warmup_steps=20, eval_every=100, save_every=100),
        MusicTask(), claims=(
            Claim(beats="n_gram_loss"), more("bars", beats="n_gram_bars"),
            more("tonic", beats="n_gram_tonic"))),
}
