"""Image and text in, text out: "what is 3+7?" asked of a picture of a 3 and a 7."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from numformer.analysis import attention_by_layer
from numformer.backend import one_blas_thread
from numformer.data import (
    QUESTIONS, Batch, DataError, WordTokenizer, consecutive_rows, question_answer, two_digits)
from numformer.data.corpora.digit_questions import SIDE, SIGNS
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.generation.greedy_search import pad_sources
from numformer.recipes.preset import Preset, more
from numformer.recipes.vision.nearest import nearest_images
from numformer.recipes.vision.vit import DigitTask
from numformer.seeds import NOISE, branch

HELD_OUT, HELD_OUT_SEED = 2000, 10**9                 # pictures; training seeds are below it
KNOWN = 5000                                          # pictures of the nearest one
VALIDATION_BATCH, SHOWN = 100, 4
ASKED = re.compile(r"what is ([0-9])([-+*])([0-9])\?")
PAD, EOS = "[PAD]", "[EOS]"


@dataclass(frozen=True)
class Examples:
    """Pictures, what is asked of them, and what is on them.

    Parameters
    ----------
    images : ndarray, shape (N, 16, 16, 1)
    questions : list of str
    numbers : ndarray of int, shape (N, 2)
        The digits on the left and on the right.
    """

    images: np.ndarray
    questions: list
    numbers: np.ndarray

    @property
    def answers(self):
        """The right answers, a list of str."""
        return [question_answer(question, *pair)
                for question, pair in zip(self.questions, self.numbers.tolist())]

    def some(self, rows):
        """The examples with these numbers."""
        return Examples(self.images[rows], [self.questions[k] for k in rows], self.numbers[rows])


class QuestionStream:
    """Batches of new pictures with questions, without end."""

    def __init__(self, digits, tokenizer, config, batch_size, seed):
        self.digits, self.tokenizer, self.config = digits, tokenizer, config
        self.batch_size, self.seed = batch_size, seed

    def batch(self, step):
        """The batch of a step: a pure function of the seed and the step."""
        examples = asked(self.digits.train_images, self.digits.train_labels, self.batch_size,
                         branch(self.seed, NOISE, step))
        return question_batch(examples, self.tokenizer, self.config)


class QuestionTask(DigitTask):
    """Answer questions about pictures of two digits; measured by the share of exact answers."""

    name = "digit-questions"
    unit = "nats per token"
    from_the_data = frozenset({"channels", "vocab_size"})
    has_tokens = True

    def tokenizer(self, dataset):
        """All words of questions and answers."""
        texts = [text for question in QUESTIONS for left in range(10) for right in range(10)
                 for text in (question, question_answer(question, left, right))]
        return WordTokenizer.of("\n".join(texts), special=(PAD, EOS))

    def options(self, tokenizer):
        return {"channels": 1, "vocab_size": len(tokenizer)}

    def stream(self, dataset, tokenizer, config, training):
        if config.image_size != SIDE:
            raise DataError(f"the pictures are {SIDE} x {SIDE} pixels, but the model takes "
                            f"{config.image_size} x {config.image_size}; leave --image-size out.")
        return QuestionStream(dataset.digits, tokenizer, config,
                              training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        examples = held_out(dataset.digits)
        batch = question_batch(examples, tokenizer, config)
        return [Batch(**{name: array[rows] for name, array in vars(batch).items()})
                for rows in consecutive_rows(len(examples.images), VALIDATION_BATCH, blocks)]

    def written(self, model, tokenizer, images, questions):
        """The answers of a model, the most probable token after each: a list of str."""
        rows = [tokenizer.encode(question).tolist() for question in questions]
        starts, end = [len(row) for row in rows], tokenizer.special_id(EOS)
        most = model.config.context_length - model.config.n_patches
        for _ in range(most - max(starts)):
            ids, lengths = pad_sources("written", rows, tokenizer.special_id(PAD))
            with one_blas_thread():
                logits = model(ids, images)[np.arange(len(rows)), lengths - 1]    # (B, V)
            for row, token in zip(rows, predicted_classes(self.name, logits, model).tolist()):
                row.append(token)
            if all(end in row for row in rows):
                break
        answers = [row[start:] for row, start in zip(rows, starts)]
        return [tokenizer.decode(np.array(row[:row.index(end)] if end in row else row, int))
                for row in answers]

    def answers(self, model, tokenizer, examples):
        """What a model answers to `Examples`."""
        images, found = examples.images.astype(model.config.dtype), []
        for rows in consecutive_rows(len(images), VALIDATION_BATCH):
            found += self.written(model, tokenizer, images[rows],
                                  [examples.questions[k] for k in rows])
        return found

    def answer(self, model, tokenizer, text):
        """The answer to "what is 3+7?": the two digits become a picture, and are left and right."""
        found = ASKED.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is no question about two digits; ask 'what is 3+7?', with "
                             f"one of the signs {' '.join(SIGNS)}.")
        left, sign, right = found.groups()
        examples = self.shown(f"what is left{sign}right?", int(left), int(right))
        (written,) = self.answers(model, tokenizer, examples)
        return written, len(tokenizer.encode(written))

    def shown(self, question, left, right):
        """One of `Examples`, of the first test images of two digits."""
        digits = self.load(None).digits
        pair = np.array([[np.flatnonzero(digits.test_labels == k)[0] for k in (left, right)]])
        image = two_digits(digits.test_images, *pair.T, np.random.default_rng(0))
        return Examples(image, [question], digits.test_labels[pair])

    def sample(self, model, tokenizer, rng):
        """A few held-out pictures: what is on them, the question and the answer."""
        examples = held_out(self.load(None).digits)
        few = examples.some(rng.choice(len(examples.images), SHOWN, replace=False))
        return "\n".join(f"({left} and {right}) {question} {answer}" for (left, right), question,
                         answer in zip(few.numbers.tolist(), few.questions,
                                       self.answers(model, tokenizer, few)))

    def reading(self, model, tokenizer, text=None):
        raise ValueError(f"the task {self.name} has pictures, not texts, to look at.")

    def pictures(self, model, tokenizer):
        """Where the model looks in a picture of a 3 and a 7 for each token of its answer."""
        from numformer.plots import patch_attention

        examples = self.shown(QUESTIONS[0], 3, 7)
        image, question = examples.images.astype(model.config.dtype), examples.questions[0]
        (written,) = self.answers(model, tokenizer, examples)
        asked, answer = tokenizer.encode(question), tokenizer.encode(written)
        n, P = len(asked), model.config.n_patches
        if not len(answer):                           # a model that ends at once
            return {}
        ids = np.concatenate([asked, answer])[None, :-1]
        *_, weights = attention_by_layer(model, ids, image).values()
        looks = weights[0].mean(axis=0)[P + n - 1:, :P]                           # (tokens, P)
        return {"attention.png": patch_attention(
            np.repeat(image, len(looks), axis=0), looks, [tokenizer.decode([t]) for t in answer],
            title=f"{question} Attention to patches for each token of the answer")}

    def measure(self, model, tokenizer, dataset):
        """The share of exact answers: the model's, and those of methods without training."""
        examples = held_out(dataset.digits)
        found = {"exact": self.answers(model, tokenizer, examples),
                 **simple_answers(dataset.digits, examples)}
        right = np.array(examples.answers)
        return {name: float((np.array(answers) == right).mean())
                for name, answers in found.items()}


def asked(images, labels, n, rng):
    """Sample n `Examples` from images of digits."""
    pairs = rng.integers(0, len(labels), (n, 2))
    questions = [QUESTIONS[k] for k in rng.integers(0, len(QUESTIONS), n)]
    return Examples(two_digits(images, *pairs.T, rng), questions, labels[pairs])


def held_out(digits):
    """`Examples` with digits of the test set."""
    return asked(digits.test_images, digits.test_labels, HELD_OUT, branch(HELD_OUT_SEED, NOISE))


def simple_answers(digits, examples):
    """Answers of methods that are not trained: {name: list of str}.

    The strongest, ``nearest_digits``, is given what the model has to learn: that a picture has two
    halves, that a digit may be at nine heights, and the rules of arithmetic. It compares each half
    with every training digit at every height. ``nearest_picture`` is right about the picture of two
    training digits that is nearest; ``question_alone`` answers for the two digits that are right
    most often.
    """
    images, labels = digits.train_images, digits.train_labels
    known = asked(images, labels, KNOWN, branch(HELD_OUT_SEED, NOISE, 1))
    nearest, _ = nearest_images(examples.images, known.images)
    everywhere = np.concatenate([np.pad(images, ((0, 0), (row, 8 - row), (0, 0), (0, 0)))
                                 for row in range(9)])
    halves = [nearest_images(half, everywhere)[0] % len(labels)
              for half in np.split(examples.images, 2, axis=2)]
    return {"question_alone": [most_frequent_answer(question) for question in examples.questions],
            "nearest_picture": replace(examples, numbers=known.numbers[nearest]).answers,
            "nearest_digits": replace(examples, numbers=labels[np.stack(halves, axis=1)]).answers}


@lru_cache
def most_frequent_answer(question):
    """The answer that is right for most pairs of digits; of several, the first.

    Examples
    --------
    >>> most_frequent_answer("which is larger?")
    '9'
    """
    counts = Counter(question_answer(question, left, right)
                     for left in range(10) for right in range(10))
    return counts.most_common(1)[0][0]


def question_batch(examples, tokenizer, config):
    """The `Batch` of examples: the tokens of answers are targets."""
    pad, end = tokenizer.special_id(PAD), tokenizer.special_id(EOS)
    rows = [(tokenizer.encode(question).tolist(), [*tokenizer.encode(answer).tolist(), end])
            for question, answer in zip(examples.questions, examples.answers)]
    T = config.context_length - config.n_patches
    longest = max(len(question) + len(answer) for question, answer in rows) - 1
    if longest > T:
        raise DataError(f"a question with its answer has {longest} tokens, but there are {T} after "
                        f"the patches; use --context-length {config.n_patches + longest}.")
    ids, targets = np.full((len(rows), T), pad), np.full((len(rows), T), IGNORE_INDEX)
    for line, target, (question, answer) in zip(ids, targets, rows):
        text, n = question + answer, len(question)
        line[:len(text) - 1] = text[:-1]
        target[n - 1:len(text) - 1] = answer
    return Batch(ids=ids, images=examples.images.astype(config.dtype), targets=targets)


PRESETS = {
    # Patches as a prefix, as in Fuyu-8B; the text is what a question and an answer are
    "vqa": Preset(
        dict(image_size=16, patch_size=4, context_length=28, n_layers=3, n_heads=4, d_model=64,
             dropout=0.1, init_std=0.1),
        dict(steps=2400, batch_size=64, shards=2, optimizer="muon", muon_ratio=3.0,
             learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=50, eval_every=400,
             save_every=400),
        QuestionTask(), "VisionLanguageModel",
        claims=tuple(more("exact", beats=name)
                     for name in ("nearest_digits", "nearest_picture", "question_alone"))),
}
