"""Learning from rewards: in each round the model samples answers, a rule scores them, it learns.

Three methods differ in what a reward is compared with, and in nothing else:

====================  ==========  ==================================================================
method                baseline    an answer becomes more likely if
====================  ==========  ==================================================================
expert iteration      none        it is right: imitation of the own right answers
REINFORCE             mean        it is better than the mean of all
GRPO                  group       it is better than others to its prompt, in standard deviations
====================  ==========  ==================================================================
"""

from copy import copy
from functools import partial

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import CARRY, SUMS, Batch, DataError, answer_batch, sampled_prompts
from numformer.finite import NotFinite, check_finite, quiet
from numformer.functional import (
    IGNORE_INDEX, differing_groups, group_advantages, kl_estimate)
from numformer.recipes.alignment.imitation import (
    CARRY_MODEL, PAD, SUMS_MODEL, VerifiedTask, log_probs_of)
from numformer.recipes.preset import Preset, more
from numformer.seeds import ANSWERS, branch
from numformer.training import Trainer


class Rounds:
    """The batches of a policy: answers that it samples itself, with their advantages.

    A batch is a function of the seed, the step, and the weights of the model.

    Parameters
    ----------
    task : RewardTask
    tokenizer : Tokenizer
    prompts : int
        P, in a round; each has G answers, `samples` of the recipe.
    seed : int
    model, reference : Decoder
        The policy that learns, and the one that it began as.
    """

    def __init__(self, task, tokenizer, prompts, seed, model, reference):
        self.task, self.tokenizer, self.prompts, self.seed = task, tokenizer, prompts, seed
        self.model, self.reference = model, reference

    def batch(self, step):
        """The batch of a round: sample and score."""
        try:
            with quiet(), one_blas_thread():          # the same for any number of threads
                return self._sampled(branch(self.seed, ANSWERS, step))
        except NotFinite as error:
            raise NotFinite(f"step {step + 1}: {error}") from None

    def _sampled(self, rng):
        G, tokenizer = self.task.recipe.samples, self.tokenizer
        prompts = sampled_prompts(self.task.rule, self.prompts, rng)
        answers, texts = self.task.answers(self.model, tokenizer, prompts, G, rng)
        rewards = self.task.score(prompts, texts)                     # (P, G)
        advantages = advantages_of(rewards, self.task.recipe.baseline)

        ids = np.array([tokenizer.encode(prompt) for prompt in prompts])              # (P, S)
        rows = answer_batch(ids.repeat(G, axis=0), answers.ids.reshape(len(ids) * G, -1),
                            tokenizer.special_id(PAD))                # (P G, S + T - 1)
        # by the same forward as in training, so that a ratio begins at 1 to the last bit or so
        old, reference = (log_probs_of(model, rows) for model in (self.model, self.reference))
        k, _ = kl_estimate(old, reference, old)
        check_finite("the divergence", [("from the reference", k)])
        return Batch(
            **vars(rows), advantages=advantages.ravel().astype(old.dtype), old_log_probs=old,
            reference_log_probs=reference).with_facts(
                reward=rewards.mean(), length=answers.lengths.mean(), ended=answers.ended.mean(),
                differing=differing_groups(rewards).mean(), kl=k.sum() / rows.n_targets)


class RoundTrainer(Trainer):
    """A step of this trainer is a round: sample and score, then learn `updates` times."""

    def update(self, batch, rate):
        for _ in range(self.stream.task.recipe.updates):
            loss, norm = super().update(batch, rate)
        return loss, norm

    def facts(self, batch):
        """Those of the batch, and the share of tokens that the round has moved to their clip."""
        with quiet(), one_blas_thread():
            ratio = np.exp(log_probs_of(self.model, batch) - batch.old_log_probs)     # (N, T)
        A, model = batch.advantages[:, None], self.model
        clipped = np.where(A > 0, ratio > 1 + model.clip_high, ratio < 1 - model.clip_low)
        return {**batch.facts, "clipped": float(clipped[batch.targets != IGNORE_INDEX].mean())}

    def load_state_dict(self, arrays, numbers):
        super().load_state_dict(arrays, numbers)
        self.optimizer.steps = self.step * self.stream.task.recipe.updates


class RewardTask(VerifiedTask):
    """Learn from the rewards of sampled answers, beginning with a model that imitates."""

    begins_as_teacher = True

    def __init__(self, rule):
        super().__init__(rule)
        self.name = f"{rule.name}-rewards"
        self.teachers = rule.name, self.name
        self.teacher = None

    def with_teacher(self, teacher):
        """The same task with the reference, the model of another run."""
        task = copy(self)
        task.teacher = teacher
        return task

    def stream(self, dataset, tokenizer, config, training):
        """The `Rounds`, but for their model."""
        self.check_context(config)
        if self.teacher is None:
            raise DataError(
                f"rewards improve a model that has learned to answer; train one with `numformer "
                f"train --preset {self.rule.name} --out runs/{self.rule.name}`, and add --from "
                f"runs/{self.rule.name}.")
        return partial(Rounds, self, tokenizer, training.batch_size * training.accumulation,
                       training.seed)

    def trainer(self, model, stream, validation, training):
        return RoundTrainer(model, stream(model, self.teacher), validation, training)


def advantages_of(rewards, baseline):
    """What each answer has earned more than the baseline, (P, G): see `PolicyRecipe`.

    Examples
    --------
    >>> rewards = np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> advantages_of(rewards, "mean").tolist()
    [[0.25, -0.75], [0.25, 0.25]]
    """
    if baseline in ("group", "group-mean"):
        return group_advantages(rewards, scale=baseline == "group")
    return rewards - (rewards.mean() if baseline == "mean" else 0.0)


ROUNDS = dict(optimizer="adam", learning_rate=5e-4, schedule="constant", warmup_steps=5,
              min_learning_rate=5e-4, eval_every=0, save_every=0)
_SUMS, _CARRY = RewardTask(SUMS), RewardTask(CARRY)

PRESETS = {
    "sums-grpo": Preset(
        SUMS_MODEL, dict(ROUNDS, steps=25, batch_size=32), _SUMS, "PolicyDecoder",
        claims_from={"sums": (more("exact", 0.97, ahead_of=("sums",)), more("with_steps", 0.95))}),
    "sums-expert": Preset(
        SUMS_MODEL, dict(ROUNDS, steps=25, batch_size=32), _SUMS, "PolicyDecoder",
        dict(baseline="none"), claims_from={"sums": (more("exact", ahead_of=("sums",)),)}),
    "carry-grpo": Preset(
        CARRY_MODEL, dict(ROUNDS, steps=60, batch_size=64), _CARRY, "PolicyDecoder",
        claims_from={"carry": (more("exact", 0.95, ahead_of=("carry", "carry-longer")),)}),
}
