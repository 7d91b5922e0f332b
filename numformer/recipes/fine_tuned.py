"""Imported encoders that others have fine-tuned: labels of texts and of tokens, and answers.

They read texts of the user alone, framed as the published tokenizer does it. Two texts, such as a
question and a text, have the name of its separator token between them.
"""

import hashlib
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from numformer.analysis.attention_views import Reading
from numformer.backend import one_blas_thread
from numformer.data import DataError
from numformer.finite import check_logits, predicted_classes
from numformer.functional import sigmoid, softmax
from numformer.models import best_spans
from numformer.recipes.task import Task

CLASSES = 5                                                           # most probable ones
LONGEST = 15                                                          # tokens of an answer
OUTSIDE = "O"                                                         # the label of other tokens
CONFIG, MULTIPLE = "config.json", "multi_label_classification"


@dataclass(frozen=True)
class NoTexts:
    """A dataset without texts."""

    name: str = "no texts"
    sha256: str = hashlib.sha256(b"").hexdigest()

    def __len__(self):
        return 0


def check_published(tokenizer):
    """A ValueError if a tokenizer has no template of special tokens."""
    if not hasattr(tokenizer, "frame"):
        raise ValueError("its tokenizer must be a published one, with a template")


class FineTunedTask(Task):
    """What a fine-tuned encoder says about a text, or about a pair of texts."""

    unit = "nats"
    needs_pair = False
    needed_prompt = "TEXT"

    def load(self, data):
        return super().load(data) if data is not None else NoTexts()

    def tokenizer(self, dataset):
        raise DataError(f"the task {self.name} is for imported models, which bring a tokenizer.")

    def options(self, tokenizer):
        check_published(tokenizer)
        return super().options(tokenizer)

    def stream(self, dataset, tokenizer, config, training):
        raise DataError("an imported classifier has no texts to train on; in Python, "
                        "numformer.training.Trainer takes any.")

    def validation(self, dataset, tokenizer, config, blocks=None):
        raise DataError("an imported classifier has no texts to be measured on; "
                        "give one to `numformer sample RUN --prompt TEXT`.")

    def sample(self, model, tokenizer, rng):
        raise DataError("an imported classifier has no texts of its own; give one with --prompt.")

    def source_ids(self, tokenizer, text):
        return self.row(tokenizer, text)[0][0]

    def row(self, tokenizer, text):
        """The ids, the segments, and which tokens are of the last text: each of shape (1, T).

        ValueError if there are more than two texts, or one where two are needed.
        """
        check_published(tokenizer)
        frame = tokenizer.frame([])[0]
        names = {tokenizer.special_id(name): name for name in tokenizer.special}
        separator = names.get(frame[-1]) if len(frame) else None
        texts = [text] if separator is None else text.split(separator)
        if len(texts) > 2:
            raise ValueError(f"a prompt has at most two texts, but {len(texts) - 1} separators; "
                             "leave the others out.")
        if self.needs_pair and text and len(texts) == 1:
            raise ValueError(f"give a question and a text with {separator or 'a separator'} "
                             "between.")
        if len(texts) == 2:
            texts = [each.strip() for each in texts]
        texts = [tokenizer.encode(each) for each in texts]
        ids, segments = tokenizer.frame(*texts)
        # Where the last text is: framed once more, with other ids in its place
        mark = next(n for n in range(len(frame) + 1) if n not in frame)
        other = next(n for n in range(mark + 1, len(frame) + 2 + mark) if n not in frame)
        marks = [np.full(len(part), other) for part in texts]
        marks[-1][:] = mark
        return ids[None], segments[None], (tokenizer.frame(*marks)[0] == mark)[None]

    def inputs(self, model, tokenizer, text):
        """The arguments of a model for a text, and which tokens are of the last text.

        ValueError if it is too long, or empty.
        """
        ids, segments, last = self.row(tokenizer, text)
        longest = model.config.context_length
        if not last.any() or ids.shape[1] > longest:
            raise ValueError(f"a text of {last.sum()} tokens does not fit: this model reads 1 to "
                             f"{longest}, special tokens included.")
        return (ids, None, segments if model.config.segments > 1 else None), last

    def logits(self, model, tokenizer, text):
        """The logits of a text, (1, ...), its ids (T,), and which are of the last text, (1, T)."""
        inputs, last = self.inputs(model, tokenizer, text)
        with one_blas_thread():
            return model(*inputs), inputs[0][0], last

    @abstractmethod
    def answer(self, model, tokenizer, text):
        """What the model says about a text."""

    def reading(self, model, tokenizer, text=None):
        if text is None:
            raise ValueError("an imported classifier has no texts of its own; give one with "
                             "--text.")
        (ids, *_), _ = self.inputs(model, tokenizer, text)
        return Reading((ids,), [tokenizer.decode([token]) for token in ids[0]])

    def label(self, n):
        """The published name of a class."""
        names = self.published.get(CONFIG, {}).get("id2label") or {}
        return str(names.get(str(n), f"LABEL_{n}"))


class TextLabelTask(FineTunedTask):
    """Probabilities of the classes of a text; of one class, the score."""

    name = "labels-of-texts"
    kinds = ("BertClassifier",)

    def answer(self, model, tokenizer, text):
        logits = self.logits(model, tokenizer, text)[0][0]            # (classes,)
        check_logits(self.name, logits, model)
        values, order = logits, np.argsort(-logits, kind="stable")[:CLASSES]
        if self.published.get(CONFIG, {}).get("problem_type") == MULTIPLE:
            values = sigmoid(logits)[0]
        elif len(logits) > 1:
            values = softmax(logits)[0]
        return ", ".join(f"{self.label(n)}: {values[n]:.3f}" for n in order), 0


class TokenLabelTask(FineTunedTask):
    """The label of each token; those outside of all entities are left out."""

    name = "labels-of-tokens"
    kinds = ("BertTokenClassifier",)

    def answer(self, model, tokenizer, text):
        logits, ids, last = self.logits(model, tokenizer, text)
        labels = predicted_classes(self.name, logits, model)[0]       # (T,)
        found = [f"{tokenizer.decode([token]).strip()}: {self.label(n)}"
                 for token, n, counts in zip(ids, labels, last[0])
                 if counts and self.label(n) != OUTSIDE]
        return ", ".join(found) or f"all {OUTSIDE}", 0


class SpanTask(FineTunedTask):
    """The part of a text that answers a question."""

    name = "spans-of-texts"
    kinds = ("BertSpanClassifier",)
    needs_pair = True
    needed_prompt = "'QUESTION SEPARATOR TEXT'"

    def answer(self, model, tokenizer, text):
        logits, ids, last = self.logits(model, tokenizer, text)
        start, end = best_spans(logits, last, LONGEST)[0]
        found = ids[start:end + 1]
        return tokenizer.decode(found).strip(), len(found)


TASKS = TextLabelTask(), TokenLabelTask(), SpanTask()
