"""What the oracle checks: every layer and model, at several small configurations.

The contract test, the audit and the mutation run all read these lists: a layer is registered once
and checked everywhere, and a class that is not registered fails a test. ESTIMATORS are layers whose
backward is by design no derivative of the forward: what the derivative is compared with is in their
own tests, and all else that holds for LAYERS holds for them. Each family has a page of
its own, with those of LAYERS and MODELS that it needs. Function pairs: `numformer.specifications`.
"""

from numformer.verify.registry import (
    bert, blocks, decoder_options, distillation, encoder_decoder, images, language_models,
    mixture_of_experts, published, recurrent, scores, seq2seq, transformer, vision)
from numformer.verify.registry.attention import efficient, plain
from numformer.verify.registry.cases import Case, LossOf

PAGES = (transformer, published, blocks, vision, images, scores, recurrent, mixture_of_experts,
         seq2seq, encoder_decoder, language_models, bert, decoder_options, plain, efficient,
         distillation)
LAYERS, ESTIMATORS, MODELS = ([case for page in PAGES for case in getattr(page, name, [])]
                              for name in ("LAYERS", "ESTIMATORS", "MODELS"))


def loss_case(case):
    """The loss of a registered model, as a case of its own."""
    def build(rng, dtype):
        return LossOf(case.build(rng, dtype), case.batch)

    return Case(f"loss of {case.name}", build, [], case.options, case.ids)


LOSSES = [loss_case(case) for case in MODELS]

__all__ = ["ESTIMATORS", "LAYERS", "LOSSES", "MODELS"]
