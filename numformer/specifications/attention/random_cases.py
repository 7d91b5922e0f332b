"""Random attention cases, one per seed: lengths near tile boundaries, all patterns and options."""

import numpy as np

from numformer import functional as F

LENGTHS = (1, 2, 3, 7, 31, 32, 33, 61, 63, 64, 65, 67, 97, 127, 128, 129, 131)
KINDS = ("plain", "causal", "window", "lengths", "documents", "mask", "alibi", "bias", "soft cap",
         "scale", "dropout", "width of values")


def attention_case(seed, dtype=np.float32, every_row=False):
    """(kind, q, k, v, do, pattern, options); `every_row`: every query may attend to some key."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    T = int(rng.choice(LENGTHS))
    S = T if rng.random() < 0.5 else int(rng.choice(LENGTHS))
    if every_row or kind == "documents":
        T, S = min(T, S), max(T, S)
    B, G, of_group = (int(rng.choice([1, 2])) for _ in range(3))
    D = int(rng.choice([1, 4, 8, 16, 32, 33, 64, 80, 128, 256],
                       p=[0.05, 0.05, 0.1, 0.15, 0.2, 0.05, 0.2, 0.1, 0.05, 0.05]))
    H = G * of_group
    q, do = rng.standard_normal((2, B, H, T, D))
    k, v = rng.standard_normal((2, B, G, S, D))
    rules, options = {}, {}
    often_causal = ("documents", "alibi", "bias", "soft cap", "dropout")
    if kind == "causal" or kind in often_causal and rng.random() < 0.5:
        rules["causal"] = True
    if kind == "window":
        rules["window"] = int(rng.integers(80)), int(rng.integers(80))
    elif kind == "lengths":
        rules["lengths"] = rng.integers(1 if every_row else 0, S + 1, B)
    elif kind == "documents":
        rules["documents"] = np.sort(rng.integers(0, 4, (B, S)), axis=1)
    elif kind == "mask":
        heads = int(rng.choice([1, H]))
        rules["mask"] = rng.random((B, heads, T, S)) < rng.choice([0.02, 0.5, 0.98])
        rules["mask"][..., 0] |= every_row
    elif kind == "alibi":
        options["slopes"] = F.alibi_slopes(H)
    elif kind == "bias":
        options["bias"] = rng.standard_normal((H, T + S - 1)).astype(dtype)
    elif kind == "soft cap":
        options["softcap"] = float(rng.choice([0.5, 2.0, 30.0]))
    elif kind == "scale":
        options["scale"] = float(rng.choice([0.05, 0.3, 1.0]))
    elif kind == "width of values":
        D_V = int(rng.choice([1, 5, 32, 65, 256]))
        do, v = rng.standard_normal((B, H, T, D_V)), rng.standard_normal((B, G, S, D_V))
    elif kind == "dropout":
        options.update(dropout=float(rng.choice([0.1, 0.5])),
                       seed=int(rng.integers(2**64, dtype=np.uint64)))
    return (kind, *(x.astype(dtype) for x in (q, k, v, do)), F.AttentionPattern(**rules), options)


def in_float64(q, k, v, do, options):
    """The same numbers in double precision."""
    more = {name: value.astype(float) if name == "bias" else value
            for name, value in options.items()}
    return (*(x.astype(float) for x in (q, k, v, do)), more)


def run(functions, q, k, v, do, pattern, options, **tasks):
    """(o, dq, dk, dv), and dbias where there is a bias, from the attention pair of a module.

    `tasks` are further keyword arguments, which the pair of a kernel takes.
    """
    o, saved = functions.scaled_dot_product_attention(q, k, v, pattern, **options, **tasks)
    return o, *functions.scaled_dot_product_attention_backward(do, saved, **tasks)
