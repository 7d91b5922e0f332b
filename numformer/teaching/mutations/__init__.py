"""Mistakes made by machine: the reference's own code, changed in one place.

`expressions` and `statements` make the changes, `program` runs them in copies of the functions, and
`pairs` holds the changed pairs of forward and backward.
"""

from numformer.teaching.mutations.pairs import Pair, Single, pairs_of

__all__ = ["Pair", "Single", "pairs_of"]
