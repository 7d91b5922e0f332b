"""Wrong calls of every registered function, layer, model: python tests/attacks/wrong_calls.py [N]

Each call is right but for one argument: another kind of array, byte order or precision, an axis too
many or too few, a wrong size, something that is no array. It must end in a TypeError or ValueError
that we have written. Without N, all of them are tried.
"""

import inspect
import sys
import warnings
from functools import partial

import numpy as np

from numformer.specifications import PAIRS
from numformer.verify.registry import ESTIMATORS, LAYERS, MODELS

FLOATS = {
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "masked": lambda x: np.ma.masked_array(x, np.zeros(x.shape, bool)),
    "float16": lambda x: x.astype(np.float16),
    "integers": lambda x: x.astype(int),
    "booleans": lambda x: x > 0,
    "objects": lambda x: x.astype(object),
    "text": lambda x: x.astype(str),
    "a list": lambda x: x.tolist(),
    "None": lambda x: None,
    "a number": lambda x: 3,
    "another precision": lambda x: x.astype(np.float32),
    "an axis more in front": lambda x: x[None],
    "an axis more at the end": lambda x: x[..., None],
    "the first axis alone": lambda x: x[(slice(None), *[0] * (x.ndim - 1))],
    "one feature less": lambda x: x[..., :-1],
}
IDS = {
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "masked": lambda x: np.ma.masked_array(x, np.zeros(x.shape, bool)),
    "floats": lambda x: x.astype(float),
    "booleans": lambda x: x > 0,
    "objects": lambda x: x.astype(object),
    "text": lambda x: x.astype(str),
    "a list": lambda x: x.tolist(),
    "None": lambda x: None,
    "negative": lambda x: x - 10**6,
    "too large": lambda x: x + 10**6,
    "empty": lambda x: x[..., :0],
    "an axis more": lambda x: x[None],
}
GENERATORS = {"a whole number": 3, "True": True, "text": "3",
              "the legacy generator": np.random.RandomState(0)}
# These may be accepted: some functions take any number of axes, and some sizes are free
SHAPES = ("an axis more in front", "an axis more at the end", "the first axis alone",
          "one feature less", "an axis more")
# (start of a case's name, argument): it may be left out
OPTIONAL = [("linear", 2), ("low_rank_linear", 2), ("feed-forward", 2), ("feed-forward", 4),
            *(("gated feed-forward", k) for k in (2, 4, 6)),
            *(("head projections", k) for k in (2, 4, 6, 7, 8)),
            ("patch convolution", 2), ("convolution 2-D", 2), ("causal convolution", 2),
            ("attention", 3),
            ("rnn", 1), ("lstm", 1), ("gru", 1), ("rnn_cell", 4), ("lstm_cell", 4), ("gru cell", 4),
            ("gru cell", 5), ("gru_cell_reset_before", 4), ("cross-attention", 1)]


def wrong_calls():
    """(name of the case, position, kind of the argument, the call) of each wrong call."""
    for case in [*PAIRS, *LAYERS, *ESTIMATORS, *MODELS]:
        layer, inputs = case.layer(), case.inputs()
        for position, x in enumerate(inputs):
            for kind, change in (FLOATS if x.dtype.kind == "f" else IDS).items():
                if is_wrong(case.name, layer, inputs, position, kind):
                    changed = [*inputs[:position], change(x), *inputs[position + 1:]]
                    yield case.name, position, kind, partial(call, case, layer, changed)
        if "rng" in inspect.signature(layer.forward).parameters or "rng" in options_of(case):
            for kind, rng in GENERATORS.items():
                yield case.name, "rng", kind, partial(call, case, layer, inputs, rng=rng)


def is_wrong(name, layer, inputs, position, kind):
    if name in ("identity", "no positions") or inputs[position].dtype.kind not in "fiu":
        return False
    if kind == "None":
        return not any(name.startswith(start) and position == k for start, k in OPTIONAL)
    if kind == "another precision":
        return len(inputs) > 1 or bool(list(layer.named_parameters()))
    return kind not in SHAPES or inputs[position].ndim > 1


def call(case, layer, arguments, **options):
    layer.forward(*arguments, **{**options_of(case), **options})


def options_of(case):
    return case.options() if callable(case.options) else dict(case.options)


def outcome(call):
    """"refused", "accepted", or the error that is no answer to a wrong call."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call()
    except (TypeError, ValueError) as error:
        frames, last = error.__traceback__, None
        while frames:
            frames, last = frames.tb_next, frames
        page = last.tb_frame.f_code.co_filename
        return "refused" if "checks.py" in page or str(error).split(":")[0].isidentifier() else (
            f"refused by chance: {type(error).__name__}: {error} in {page}:{last.tb_lineno}")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


if __name__ == "__main__":
    limit = int(sys.argv[1]) if sys.argv[1:] else None
    count = {}
    for name, position, kind, wrong_call in list(wrong_calls())[:limit]:
        found = outcome(wrong_call)
        count[found.split(":")[0]] = count.get(found.split(":")[0], 0) + 1
        if found != "refused" and not (found == "accepted" and kind in SHAPES):
            print(f"{name}, argument {position}, {kind}: {found}")
    print(count)
