"""What T5 is trained on before it is told to do anything: say what stood where spans of a document are hidden."""

import numpy as np

from numformer.tasks.documents import MEASURED, DocumentTask, mean_likeness
from numformer.training import corrupt_spans, fill_spans


class SpanTask(DocumentTask):
    """Say the spans that sentinels stand for: three twentieths of a document's tokens, three in a row on average.

    The answer holds no token of what can be seen, so it is short; BART writes all of it again, see `DenoiseTask`.
    """

    name = "spans"
    marks = tuple(f"<{k}>" for k in range(16))                        # a document of 240 tokens has 12 spans, and one closes the answer

    def pair(self, sentences, marks, rng):
        return corrupt_spans(np.concatenate(sentences), marks, rng)

    def measure(self, model, tokenizer, material):
        """How like the documents are to the sources with the answer's spans, and to the sources without any."""
        sources, targets = zip(*self.noised(material.held_out[:MEASURED], tokenizer))
        marks, answers = self.mark_ids(tokenizer), self.replies(model, tokenizer, list(sources))
        whole = [fill_spans(source, target, marks) for source, target in zip(sources, targets)]
        restored = [fill_spans(source, answer, marks) for source, answer in zip(sources, answers)]
        copied = [source[~np.isin(source, marks)] for source in sources]
        return {"restored_spans": mean_likeness(restored, whole), "copied_spans": mean_likeness(copied, whole)}
