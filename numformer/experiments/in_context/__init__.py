"""What a decoder learns from its prompt alone."""

from numformer.experiments.in_context import few_shot, induction_heads, prompts

EXPERIMENTS = {
    "few-shot": few_shot.FEW_SHOT,
    "induction-heads": induction_heads.INDUCTION_HEADS,
    "prompts": prompts.PROMPTS,
}
