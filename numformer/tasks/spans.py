"""What T5 is trained on before it is told to do anything: say what stood where spans of a document are hidden."""

import numpy as np

from numformer.functional import IGNORE_INDEX
from numformer.models import KneserNey
from numformer.tasks.documents import DocumentTask
from numformer.tasks.masked import N_GRAM, n_gram_is_right
from numformer.training import corrupt_spans


class SpanTask(DocumentTask):
    """Say the spans that sentinels stand for: three twentieths of a document's tokens, three in a row on average.

    The answer holds no token of what can be seen, so it is short; BART writes all of it again, see `DenoiseTask`.
    """

    name = "spans"
    marks = tuple(f"<{k}>" for k in range(16))                        # a document of 240 tokens has 12 spans, and one closes the answer

    def pair(self, sentences, marks, rng):
        return corrupt_spans(np.concatenate(sentences), marks, rng)

    def measure(self, model, tokenizer, material):
        """How many hidden tokens are guessed, by the model and by an n-gram: both are told the true tokens before each."""
        right, by_n_gram, unasked = [], [], (IGNORE_INDEX, *self.mark_ids(tokenizer), self.ids(tokenizer)[-1])
        for batch in self.validation(material, tokenizer, model.config):
            hidden = ~np.isin(batch.targets, unasked)                 # (B, T): neither a sentinel nor the end
            right.append(model(batch.inputs, batch.lengths, batch.outputs)[hidden].argmax(axis=-1) == batch.targets[hidden])

        text = np.concatenate([tokenizer.encode(sentence) for sentence in self.sentences(material)])
        n_gram = KneserNey.fit(text, N_GRAM, len(tokenizer))
        for number, document in enumerate(material.held_out):
            ids = np.concatenate([tokenizer.encode(sentence) for sentence in document])
            by_n_gram.append(n_gram_is_right(n_gram, ids, self.hidden_places(len(ids), number)))
        return {"span_accuracy": float(np.concatenate(right).mean()), "n_gram_accuracy": float(np.concatenate(by_n_gram).mean())}

    def hidden_places(self, length, number):
        """Where the noise of a document's number hides tokens: it depends on how many there are, and not on what they say."""
        _, target = self.pair([np.arange(length)], range(length, length + len(self.marks)), np.random.default_rng(number))
        return target[target < length]
