"""Kinds of bugs that a layer can have, one right layer each with one of them.

Every page has BUGS: (kind, layer or pair of functions, inputs, more arguments of gradcheck, words
that the report must contain). The first layers of a page are right; the others differ by a line.
"""

from planted_kinds import (
    accumulation, complex_numbers, derivatives, layouts, memory, output_gradients, results, scales,
    state)

BUGS = [bug for page in (derivatives, complex_numbers, output_gradients, layouts, memory, state,
                         accumulation, scales, results) for bug in page.BUGS]
