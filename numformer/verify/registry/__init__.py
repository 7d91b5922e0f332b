"""Every function pair, layer and model at several small configurations: registered here once, and checked everywhere.

The contract test, the audit and the mutation run all read these lists; a class or a pair that is missing fails a test. A family
has a page of its own, with those of LAYERS, MODELS and PAIRS that it needs.
"""

from numformer.verify.cases import Case, LossOf
from numformer.verify.registry import (
    bert, encoder_decoder, language_models, mixture_of_experts, recurrent, scores, seq2seq, transformer, vision)

PAGES = (transformer, vision, scores, recurrent, mixture_of_experts, seq2seq, encoder_decoder, language_models, bert)
LAYERS, MODELS, PAIRS = ([case for page in PAGES for case in getattr(page, name, [])] for name in ("LAYERS", "MODELS", "PAIRS"))
LOSSES = [Case(f"loss of {case.name}", lambda rng, dtype, case=case: LossOf(case.build(rng, dtype), case.batch), [], case.options,
               case.ids) for case in MODELS]

__all__ = ["LAYERS", "LOSSES", "MODELS", "PAIRS"]
