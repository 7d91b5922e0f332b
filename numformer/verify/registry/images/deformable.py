"""Deformable attention."""

from numformer.layers import DeformableAttention
from numformer.specifications.pair import floats
from numformer.verify.registry.cases import Case


def attention(*sizes):
    return lambda rng, dtype: DeformableAttention(*sizes, rng, dtype=dtype)


def one_map():
    return {"shapes": [(2, 3)]}


LAYERS = [
    Case("deformable attention layer", attention(4, 2, 1, 2), [(2, 3, 4), (2, 6, 4), (2, 3, 2)],
         one_map,
         wrong=[((floats(2, 3, 5), floats(2, 6, 4), floats(2, 3, 2)), ValueError, "C=4"),
                ((floats(2, 3, 4), floats(2, 7, 4), floats(2, 3, 2)), ValueError, "S=7"),
                ((floats(2, 3, 4), floats(1, 6, 4), floats(2, 3, 2)), ValueError, "B=2"),
                ((floats(2, 3, 4), floats(2, 6, 4), floats(2, 4, 2)), ValueError, "T=3")]),
    Case("deformable attention layer, two maps", attention(6, 3, 2, 1),
         [(1, 4, 6), (1, 8, 6), (1, 4, 2)], lambda: {"shapes": ((3, 2), (1, 2))}),
]

MODELS = []
