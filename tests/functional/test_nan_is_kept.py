"""NaN that goes into a function comes out of it, or is refused: no branch may lose it."""

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F
from numformer.specifications import PROBLEMS

INPUTS = [(name, key) for name, problem in PROBLEMS.items() for key in problem.wanted]


def arrays_of(outputs):
    parts = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [array for part in parts if part is not None
            for array in (arrays_of(part) if isinstance(part, (tuple, list)) else [part])]


@pytest.mark.parametrize("name, key", INPUTS)
@np.errstate(invalid="ignore")
def test_nan_is_not_lost(name, key):
    made = (make(np.random.default_rng(3)) for make in PROBLEMS[name].levels.values())
    given, options, inputs = next((*problem, arrays) for problem in made for arrays in problem
                                  if arrays.get(key) is not None)
    inputs[key] = np.full_like(inputs[key], np.nan)
    for functions in (F, backend):
        try:
            outputs, _ = getattr(functions, name)(*given.values(), **options)
        except ValueError as error:
            assert "finite" in str(error)
        else:
            assert any(np.isnan(y).any() for y in arrays_of(outputs))
