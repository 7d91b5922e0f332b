"""The similarity of restored documents to the originals."""

import numpy as np

from numformer.recipes.text_to_text.bart import similarity


def test_similarity_is_one_minus_the_normalized_edit_distance(rng):
    for _ in range(50):
        one, other = rng.integers(0, 3, rng.integers(0, 8)), rng.integers(0, 3, rng.integers(1, 8))
        edits = np.zeros((len(one) + 1, len(other) + 1), int)
        edits[:, 0], edits[0] = np.arange(len(one) + 1), np.arange(len(other) + 1)
        for i in range(len(one)):
            for j in range(len(other)):
                edits[i + 1, j + 1] = min(edits[i, j + 1] + 1, edits[i + 1, j] + 1,
                                          edits[i, j] + (one[i] != other[j]))
        assert similarity(one, other) == 1 - edits[-1, -1] / max(len(one), len(other))
