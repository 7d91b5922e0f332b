"""A masked language model of tales: the start of the other presets."""

import numpy as np

from numformer.data import consecutive_masked_rows, mask_tokens
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.recipes.library.bert import MaskedTask
from numformer.recipes.library.library_task import VALIDATION_BATCH
from numformer.recipes.preset import Preset, more
from numformer.recipes.bert_recipes import BertRecipe
from numformer.recipes.world.world_task import WorldTask, shown, word_ids, words_of

MEASURED_RATE = 0.15


class WorldMaskedTask(WorldTask, MaskedTask):
    """Masked language modelling on tales without labels.

    Each row is the summary of a tale and the tale: a word that is masked in the one can be found in
    the other.
    """

    name = "world-masked"
    n_tales = 3000
    recipe = BertRecipe()

    def rows(self, tokenizer, config, held_out, easy=False):
        """The `PassageRows` of one part of the world."""
        return WorldTask.rows(self, tokenizer, config, [
            (story.summary, story.words) for story in self.tales(held_out)])

    def masks(self, tokenizer, rate):
        """The arguments of `mask_tokens`."""
        special = [tokenizer.special_id(name) for name in tokenizer.special]
        return dict(special=special, vocab_size=len(tokenizer),
                    mask_id=tokenizer.special_id("[MASK]"), rate=rate)

    def sample(self, model, tokenizer, rng):
        """A held-out tale with predictions in brackets; after a wrong one, a bar and the word."""
        rows = self.rows(tokenizer, model.config, held_out=True)
        row = rows.take([int(rng.integers(len(rows.ids)))])
        inputs, targets = mask_tokens(row.ids, rng=rng, **self.masks(tokenizer, MEASURED_RATE))
        logits = model.masked_logits(inputs, row.segments)
        guesses = predicted_classes(self.name, logits, model)[0]
        words = []
        for token, target, guess in zip(row.ids[0], targets[0], guesses):
            word, guessed = tokenizer.decode([token]), tokenizer.decode([guess])
            found = f"[{guessed}]" if guess == token else f"[{guessed}|{word}]"
            words.append(word if target == IGNORE_INDEX else found)
        return shown(words)

    def source_ids(self, tokenizer, text):
        """The ids of words; "[MASK]" is the mask."""
        parts = text.split("[MASK]")
        mask = [tokenizer.special_id("[MASK]")]
        ids = [id_ for part in parts for id_ in (*word_ids(tokenizer, words_of(part)), *mask)]
        return np.array(ids[:-1], np.int64)

    def answer(self, model, tokenizer, text):
        """The text with each mask filled by its most probable word, independently."""
        padding, cls, separator = self.layout(tokenizer)
        ids = self.source_ids(tokenizer, text)
        if not 1 <= len(ids) <= self.max_tokens(model.config):
            raise ValueError(f"a text of {len(ids)} words does not fit: this model reads 1 to "
                             f"{self.max_tokens(model.config)}; choose another.")
        row = np.array([[cls, *ids, separator]])
        guesses = predicted_classes(self.name, model.masked_logits(row), model)[0][1:-1]
        masked = ids == tokenizer.special_id("[MASK]")
        words = [f"[{tokenizer.decode([guess])}]" if hidden else tokenizer.decode([token])
                 for token, guess, hidden in zip(ids, guesses, masked)]
        return shown(words), int(masked.sum())

    def measure(self, model, tokenizer, dataset):
        """Accuracy on masked words of held-out tales, and that of the most frequent word."""
        rows, right, frequent = self.rows(tokenizer, model.config, held_out=True), [], []
        counts = np.bincount(self.rows(tokenizer, model.config, held_out=False).ids.ravel())
        counts[:len(tokenizer.special)] = 0
        for batch in consecutive_masked_rows(rows, batch_size=VALIDATION_BATCH,
                                             **self.masks(tokenizer, MEASURED_RATE)):
            masked = batch.targets != IGNORE_INDEX                    # (B, T)
            x = model(batch.inputs, batch.segments, batch.lengths)
            guesses = predicted_classes(self.name, model.head(x[masked]), model)
            right.append(guesses == batch.targets[masked])
            frequent.append(batch.targets[masked] == counts.argmax())
        return {"masked_accuracy": float(np.concatenate(right).mean()),
                "most_frequent_accuracy": float(np.concatenate(frequent).mean())}


BACKBONE = dict(n_layers=3, n_heads=4, d_model=96, positions="rotary", init_std=0.05,
                context_length=144)
CONTENT = dict(content_layers=1, like_to_like=True)
WORLD = dict(optimizer="muon", batch_size=32, learning_rate=0.01, min_learning_rate=0.0,
             warmup_steps=30, schedule="linear", momentum=0.95, weight_decay=0.0, muon_ratio=3.0,
             eval_every=300, save_every=300)

PRESETS = {
    "world-bert": Preset(
        dict(BACKBONE, next_sentence=False), dict(WORLD, steps=500), WorldMaskedTask(), "Bert",
        recipe=dict(CONTENT, dynamic_masks=True, mask_rate=0.25),
        claims=(more("masked_accuracy", beats="most_frequent_accuracy"),)),
}
