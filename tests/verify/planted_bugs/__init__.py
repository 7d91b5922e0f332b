"""Bugs for the checkers to find: each is one small change to the source of one backward.

FUNCTIONS holds (function, old text, new text), and sometimes words of the cause that `check` must
name; "function, part" puts the bug into `part`, which the function calls. They are those that no
likely mistake of `numformer.specifications` makes. LAYERS holds (Class.method, old text, new text).
"""

from planted_bugs import (
    attention, bert, detection, distillation, efficient_attention, encoder_decoder, images,
    mixture_of_experts, recurrent, transformer, vision)

PAGES = (transformer, attention, recurrent, vision, mixture_of_experts, bert, encoder_decoder,
         images, efficient_attention, distillation, detection)
FUNCTIONS = [bug for page in PAGES for bug in getattr(page, "FUNCTIONS", ())]
LAYERS = [bug for page in PAGES for bug in page.LAYERS]
