"""Questions about a tale, answered by a span of it."""

from collections import Counter

import numpy as np

from numformer.data import DataError
from numformer.models import best_spans
from numformer.recipes.preset import Preset, more
from numformer.recipes.world.tags import FEW, MODEL, entity_spans
from numformer.recipes.world.world_bert import CONTENT
from numformer.recipes.world.world_task import LabelledTask, TargetRows, shown, words_of

LONGEST = 3                                                           # words of an answer


class AnswerTask(LabelledTask):
    """Find the answer to a question in a tale; people have other things than in training."""

    name = "answers"
    unit = "nats per end"
    n_tales = 100

    def questions(self, held_out):
        """(question, tale) pairs of one part."""
        return [(question, story) for story in self.tales(held_out) for question in story.questions]

    def examples(self, tokenizer, config, held_out):
        pairs = self.questions(held_out)
        rows = self.rows(tokenizer, config, [(q.words, story.words) for q, story in pairs])
        targets = np.array([(q.span[0], q.span[1] - 1) for q, _ in pairs])            # (N, 2)
        first = np.array([len(q.words) + 2 for q, _ in pairs])        # [CLS] question [SEP]
        targets = targets + first[:, None]
        whole = np.flatnonzero(targets[:, 1] < rows.lengths - 1)      # the answer is not cut off
        if not len(whole):
            raise DataError(f"no answer fits into rows of context_length={config.context_length}; "
                            "use a larger --context-length.")
        return TargetRows(rows.take(whole), targets[whole])

    def spans(self, model, rows):
        """The best span of each row's text: (N, 2)."""
        logits = [best_spans(model(part.ids, part.lengths, part.segments), text_tokens(part),
                             LONGEST)
                  for part in (rows.take(slice(n, n + 64)) for n in range(0, len(rows.ids), 64))]
        return np.concatenate(logits)

    def answer_of(self, model, tokenizer, question, words):
        """The words of the answer that a model finds."""
        rows = self.user_rows(model, tokenizer, question, words)
        start, end = self.spans(model, rows)[0] - len(question) - 2
        return words[start : end + 1]

    def sample(self, model, tokenizer, rng):
        """A held-out tale with a question, the answer found, and the answer."""
        pairs = self.questions(held_out=True)
        question, story = pairs[int(rng.integers(len(pairs)))]
        found = self.answer_of(model, tokenizer, question.words, story.words)
        return (f"{story.text} {shown(question.words)} -> {shown(found)} "
                f"({shown(question.answer)})")

    def answer(self, model, tokenizer, text):
        """The answer to "question? tale"."""
        question, mark, tale = text.partition("?")
        if not mark or not question.strip() or not tale.strip():
            raise ValueError("give a question, a question mark and a tale, such as 'who had the "
                             "ball? tom had a ball.'")
        found = self.answer_of(model, tokenizer, words_of(question + mark), words_of(tale))
        return shown(found), len(found)

    def measure(self, model, tokenizer, dataset):
        """Exact match and `token_f1`; and those of the last entity of the right kind in the tale.

        That baseline knows the kind of the answer, and leaves out entities of the question.
        """
        pairs = self.questions(held_out=True)
        rows = self.rows(tokenizer, model.config, [(q.words, story.words) for q, story in pairs])
        first = np.array([len(q.words) + 2 for q, _ in pairs])
        spans = self.spans(model, rows) - first[:, None]
        found = [story.words[start : end + 1] for (start, end), (_, story) in zip(spans, pairs)]
        expected = [q.answer for q, _ in pairs]
        others = [last_of_kind(q, story) for q, story in pairs]
        return {"exact": _exact(found, expected), "token_f1": _f1(found, expected),
                "exact_of_the_baseline": _exact(others, expected),
                "token_f1_of_the_baseline": _f1(others, expected)}


def text_tokens(rows):
    """Where an answer may be: the tokens of segment 1 without the last separator."""
    T = rows.ids.shape[1]
    return (rows.segments == 1) & (np.arange(T) < rows.lengths[:, None] - 1)


def last_of_kind(question, story):
    """The last entity of the answer's kind that the question does not name."""
    entities = sorted(span[1:] for span in entity_spans([story.entities]))
    words = [story.words[start:end] for start, end, label in entities if label == question.kind]
    words = [each for each in words if each[-1] not in question.words] or words
    return words[-1]


def _exact(found, expected):
    return float(np.mean([tuple(one) == tuple(other) for one, other in zip(found, expected)]))


def _f1(found, expected):
    return float(np.mean([token_f1(one, other) for one, other in zip(found, expected)]))


def token_f1(found, expected):
    r"""The F1 of the words of an answer: each counts as often as it occurs in both.

    .. math:: F = \frac{2 \sum_w \min(n_w, m_w)}{n + m}

    for n words of the answer and m of the expected one. SQuAD's figure is that of texts without
    articles, punctuation and capitals; here all words count. Two answers of no words are equal.

    References
    ----------
    Rajpurkar et al. (2016), "SQuAD", section 6.1.

    Examples
    --------
    >>> token_f1(["ball", "ball", "ball"], ["ball"])
    0.5
    """
    if not found and not expected:
        return 1.0
    common = Counter(found) & Counter(expected)
    return 2 * common.total() / (len(found) + len(expected))


PRESETS = {
    "answers": Preset(
        dict(MODEL, dropout=0.0), dict(FEW, steps=400, batch_size=32, eval_every=200),
        AnswerTask(), "BertSpanClassifier", CONTENT,
        (more("exact"),),
        {"world-bert": (
            more("exact", beats="exact_of_the_baseline", ahead_of=("answers",)),
            more("token_f1", beats="token_f1_of_the_baseline", ahead_of=("answers",)))}),
}
