"""Known mistakes: backwards that are wrong in one thing, each with the sentence that names it.

A mistake takes `(dy, *arguments, **options)` and returns gradients. MISTAKES of a page lists those
of each backward as (cause, mistake).
"""

from numformer.teaching.mistakes import (
    attention, bert, distillation, efficient_attention, images, linear, mixture_of_experts, norms,
    pointwise, recurrent, scores, softmax, vision)
from numformer.teaching.mistakes.general import GENERAL

PAGES = (attention, bert, mixture_of_experts, linear, norms, pointwise, recurrent, scores, softmax,
         vision, images, efficient_attention, distillation)
MISTAKES = {name: mistakes for page in PAGES for name, mistakes in page.MISTAKES.items()}

__all__ = ["GENERAL", "MISTAKES"]
