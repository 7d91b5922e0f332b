"""The task of T5: one model that does what the text tells it to."""

from functools import lru_cache

from numformer.datasets import INSTRUCTIONS, held_out_instructions, instruction_mixture
from numformer.tasks.pairs import Pairs, PairTask

TRAINING_PAIRS = 120_000
HELD_OUT = 250                                                        # of each task


class InstructionTask(PairTask):
    """"reverse:", "sort:", "add:" and "french:" in one model; exact on how many held-out prompts of each."""

    name = "instructions"
    kinds = ("EncoderDecoder",)
    longest = 72                                                      # the longest French answer has 61 characters
    pool = 1                                                          # lengths tell the tasks apart, and every batch shall hold all four

    def pairs(self):
        return _pairs()

    def measure(self, model, tokenizer, material):
        """The part of the held-out answers that are right to the last character: in all, and of each task."""
        sources, targets = zip(*material.held_out)
        answers = self.answers(model, tokenizer, list(sources))
        right = [answer == target for answer, target in zip(answers, targets)]
        parts = {task: [r for r, source in zip(right, sources) if source.startswith(f"{task}:")] for task in INSTRUCTIONS}
        return {"exact": sum(right) / len(right), **{task: sum(part) / len(part) for task, part in parts.items() if part}}


@lru_cache(maxsize=1)
def _pairs():
    held_out = held_out_instructions(HELD_OUT)
    # in turns, so that the first few are an estimate for all
    return Pairs("instructions", instruction_mixture(TRAINING_PAIRS, seed=0), [pair for four in zip(*held_out.values()) for pair in four])
