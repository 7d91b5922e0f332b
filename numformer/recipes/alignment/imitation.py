"""Imitation: a decoder learns to answer prompts from demonstrations of mixed quality."""

from functools import lru_cache

import numpy as np

from numformer.analysis.attention_views import Reading
from numformer.data import (
    CARRY, SUMS, CharacterTokenizer, DataError, answer_batch, sampled_prompts, split_prompts)
from numformer.functional import IGNORE_INDEX, token_log_probs
from numformer.generation import sample_answers
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.task import Task
from numformer.recipes.text_to_text.pairs import Pairs
from numformer.seeds import ORDER, branch

PAD, EOS = SPECIAL = "[PAD]", "[EOS]"
VALIDATION_BATCH, SHOWN = 500, 4
CUT = "..."                                           # an answer that did not end
SAMPLED = 2                                           # answers to each held-out prompt


class VerifiedTask(Task):
    """Answer prompts of a `VerifiableTask`; measured by the share of right answers.

    The loss is the cross-entropy of right answers to held-out prompts, which no run trains on.

    Parameters
    ----------
    rule : VerifiableTask
    """

    from_the_data = frozenset({"vocab_size"})

    def __init__(self, rule):
        self.rule, self.name = rule, rule.name

    def load(self, data):
        return super().load(data) if data is not None else _pairs(self.rule)

    def tokenizer(self, dataset):
        return CharacterTokenizer(self.rule.characters, special=SPECIAL)

    def validation(self, dataset, tokenizer, config, blocks=None):
        self.check_context(config)
        pairs = dataset.held_out[:blocks]
        return [rows_of(pairs[first : first + VALIDATION_BATCH], tokenizer)
                for first in range(0, len(pairs), VALIDATION_BATCH)]

    def check_context(self, config):
        """DataError if a demonstration does not fit into the context."""
        least = self.rule.prompt_length + self.rule.longest + 1       # and EOS
        if config.context_length < least:
            raise DataError(f"prompts and answers of {self.rule.name} have up to {least} tokens; "
                            f"use --context-length {least} or more.")

    def answers(self, model, tokenizer, prompts, samples=1, rng=None):
        """Sampled `Answers`, greedy ones without a generator; and their `texts_of`."""
        ids = [tokenizer.encode(prompt) for prompt in prompts]
        found = sample_answers(
            model, ids, samples, model.config.context_length - self.rule.prompt_length, rng,
            temperature=0 if rng is None else 1, end=tokenizer.special_id(EOS), reproducible=False)
        return found, texts_of(found, tokenizer)

    def score(self, prompts, texts):
        """The rewards (P, G) of texts (P, G); that of an answer that did not end is 0."""
        return np.array([[0.0 if text is None else self.rule.reward(prompt, text)
                          for text in group] for prompt, group in zip(prompts, texts)], float)

    def measure(self, model, tokenizer, dataset):
        """The share of right answers to held-out prompts, greedy and sampled; and their length."""
        prompts = [prompt for prompt, _ in dataset.held_out]
        found, texts = self.answers(model, tokenizer, prompts)
        _, sampled = self.answers(model, tokenizer, prompts, SAMPLED, np.random.default_rng(0))
        return {"exact": float(self.score(prompts, texts).mean()),
                "exact_sampled": float(self.score(prompts, sampled).mean()),
                "tokens_of_an_answer": float(found.lengths.mean()),
                **self.rule.measures([text or "" for text, in texts])}

    def sample(self, model, tokenizer, rng):
        """Held-out prompts, sampled answers, and whether they are right."""
        _, held_out = split_prompts(self.rule)
        prompts = [held_out[k] for k in rng.choice(len(held_out), SHOWN, replace=False)]
        _, texts = self.answers(model, tokenizer, prompts, 1, rng)
        rewards = self.score(prompts, texts)
        return "\n".join(f"{prompt} {CUT if text is None else text} "
                         f"({'right' if reward else 'wrong'})"
                         for prompt, (text,), (reward,) in zip(prompts, texts, rewards))

    def answer(self, model, tokenizer, text):
        """The greedy answer to a prompt."""
        n = self.rule.prompt_length
        if len(text) != n:
            raise ValueError(f"a prompt of {self.rule.name} has {n} characters, such as "
                             f"{split_prompts(self.rule)[1][0]!r}, but {text!r} has {len(text)}.")
        found, _ = self.answers(model, tokenizer, [text])
        return tokenizer.decode(found.tokens(0, 0)), int(found.lengths[0, 0])

    def reading(self, model, tokenizer, text=None):
        """A text, by default a held-out prompt with the answer of the model."""
        if text is None:
            text = split_prompts(self.rule)[1][0]
            text += self.answer(model, tokenizer, text)[0]
        ids = tokenizer.encode(text)
        if not 1 <= len(ids) <= self.max_tokens(model.config):
            raise ValueError(f"a text of {len(ids)} characters does not fit this model.")
        return Reading((ids[None],), list(text))


class ImitationTask(VerifiedTask):
    """Learn from demonstrations: each step samples prompts and how somebody answered them."""

    def stream(self, dataset, tokenizer, config, training):
        self.check_context(config)
        return DemonstrationStream(self.rule, tokenizer, training.batch_size *
                                   training.accumulation, training.seed)


class DemonstrationStream:
    """Batches of prompts and demonstrations, without end."""

    def __init__(self, rule, tokenizer, batch_size, seed):
        self.rule, self.tokenizer = rule, tokenizer
        self.batch_size, self.seed = batch_size, seed

    def batch(self, step):
        """The batch of a step: a pure function of the seed and the step."""
        rng = branch(self.seed, ORDER, step)
        prompts = sampled_prompts(self.rule, self.batch_size, rng)
        return rows_of([(prompt, self.rule.demonstration(prompt, rng)) for prompt in prompts],
                       self.tokenizer)


def rows_of(pairs, tokenizer):
    """The `answer_batch` of prompts and answers, with EOS."""
    end, padding = tokenizer.special_id(EOS), tokenizer.special_id(PAD)
    prompts = np.array([tokenizer.encode(prompt) for prompt, _ in pairs])
    longest = max(len(answer) for _, answer in pairs)
    answers = np.full((len(pairs), longest + 1), IGNORE_INDEX)
    for row, (_, answer) in zip(answers, pairs):
        row[:len(answer) + 1] = [*tokenizer.encode(answer), end]
    return answer_batch(prompts, answers, padding)


def texts_of(answers, tokenizer):
    """The texts of `Answers`, (P, G) lists; None for one that did not end."""
    P, G = answers.lengths.shape
    return [[tokenizer.decode(answers.tokens(p, g)) if answers.ended[p, g] else None
             for g in range(G)] for p in range(P)]


def log_probs_of(model, rows):
    """The log-probability that a decoder gives to each target of rows, (N, T); 0 elsewhere."""
    return token_log_probs(model(rows.inputs), rows.targets)[0]


@lru_cache
def _pairs(rule):
    return Pairs(f"{rule.name} by rule", *([(prompt, rule.solution(prompt)) for prompt in part]
                                          for part in split_prompts(rule)))


MODEL = dict(n_layers=2, n_heads=4, d_model=64, positions="rotary", init_std=0.1)
TRAINING = dict(optimizer="adam", batch_size=64, learning_rate=3e-3, min_learning_rate=0.0,
                warmup_steps=50, eval_every=0, save_every=0)
SUMS_MODEL, CARRY_MODEL = dict(MODEL, context_length=16), dict(MODEL, context_length=12)

PRESETS = {
    # Imitation answers as most demonstrations do: at once, or without the carry, which is right
    # where there is none to carry. So these claims have an upper bound
    "sums": Preset(SUMS_MODEL, dict(TRAINING, steps=500), ImitationTask(SUMS),
                   claims=(Claim("exact", 0.40),)),
    "carry": Preset(CARRY_MODEL, dict(TRAINING, steps=2000), ImitationTask(CARRY),
                    claims=(Claim("exact", 0.65),)),
    # The control of rewards: imitation for the time of both
    "carry-longer": Preset(CARRY_MODEL, dict(TRAINING, steps=3200), ImitationTask(CARRY),
                           claims=(more("exact"),)),
}
