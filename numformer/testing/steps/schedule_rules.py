"""Learning rates of each schedule, right, or with a usual mistake."""

import math

MISTAKES = {
    "steps count from 1, and not from 0": {"shift": 1},
    "steps lag by one": {"shift": -1},
    "the warm-up begins at 0: s / w in place of (s + 1) / (w + 1)": {"warm": "s / w"},
    "the warm-up is (s + 1) / w in place of (s + 1) / (w + 1)": {"warm": "(s + 1) / w"},
    "there is no warm-up": {"warm": "none"},
    "the floor is reached at the last step, S - 1, and not at S": {"end": -1},
    "the fall is counted from step 0, and not from the end of the warm-up": {"from": "zero"},
    "the steps of the warm-up are added to S": {"from": "all after"},
    "the floor is 0": {"floor": "none"},
    "the floor is added to the peak": {"floor": "added"},
    "the rate is cut at the floor, and does not approach it": {"floor": "cut"},
    "the warm-up begins at the floor": {"warm": "floor"},
    "cos goes from 0 to pi / 2, not to pi": {"cosine": "half"},
    "the factor 1 / 2 of the cosine is missing": {"cosine": "double"},
    "the rate rises in place of falling": {"cosine": "rising"},
    "the peak of the inverse root is missing its factor sqrt(w + 1)": {"root": "no warm-up"},
    "the rate falls linearly": {"shape": "linear"},
    "the rate falls along a cosine": {"shape": "cosine"},
    "the rate stays at the peak": {"shape": "constant"},
    "the rate falls with the inverse root": {"shape": "inverse_sqrt"},
    "the rate is a multiple of the peak: it is not multiplied by it": {"peak": "one"}}


def rate(name, step, steps, peak, floor, warmup, mistake):
    """The learning rate of a step, with a mistake."""
    shape = mistake.get("shape", name)
    step = max(0, step + mistake.get("shift", 0))
    added = floor if mistake.get("floor") == "added" else 0.0
    cut = floor if mistake.get("floor") == "cut" else None
    floor = 0.0 if mistake.get("floor") in ("none", "added", "cut") else floor
    found = _rate(shape, step, steps, peak, floor, warmup, mistake)
    found = found if cut is None else max(cut, found)
    return added + (found / peak if mistake.get("peak") == "one" else found)


def _rate(shape, step, steps, peak, floor, warmup, mistake):
    warm = mistake.get("warm", "usual")
    share = {"usual": (step + 1) / (warmup + 1), "none": 1.0, "floor": (step + 1) / (warmup + 1),
             "s / w": step / max(1, warmup), "(s + 1) / w": (step + 1) / max(1, warmup)}[warm]
    if warmup == 0:
        share = 1.0
    low = floor if warm == "floor" else 0.0
    warming = low + (peak - low) * min(1.0, share)
    if shape == "constant" or warm != "none" and step < warmup:
        return warming
    start = 0 if mistake.get("from") == "zero" or warm == "none" else warmup
    last = steps + mistake.get("end", 0) + (warmup if mistake.get("from") == "all after" else 0)
    p = min(1.0, (step - start) / max(1, last - start))
    if shape == "inverse_sqrt":
        w = 0 if mistake.get("root") == "no warm-up" else warmup
        return max(floor, peak * math.sqrt((w + 1) / (step + 1)))
    if shape == "linear":
        return floor + (peak - floor) * (1 - p)
    how = mistake.get("cosine")
    wave = {"half": math.cos(math.pi * p / 2), "double": 1 + math.cos(math.pi * p),
            "rising": 0.5 * (1 - math.cos(math.pi * p))}.get(how, 0.5 * (
                1 + math.cos(math.pi * p)))
    return floor + (peak - floor) * wave
