"""What every rank runs in test_tensor_parallel.py: its part of some layers, and the whole ones."""

import json

import numpy as np

from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.layers import (
    FeedForward, GatedFeedForward, LayerNorm, MultiHeadAttention, RotaryPositions)
from numformer.layers.parallel.tensor_parallel import TensorParallel
from numformer.verify.errors import largest, largest_difference, relative_distance

F64 = np.float64
LAYERS = {
    "relu": lambda rng: FeedForward(8, 16, "relu", rng, dtype=F64),
    "gelu, no bias": lambda rng: FeedForward(8, 12, "gelu", rng, bias=False, dtype=F64),
    "swiglu": lambda rng: GatedFeedForward(8, 20, "silu", rng, dtype=F64),
    "attention": lambda rng: MultiHeadAttention(16, 4, rng, dtype=F64),
    "grouped, rotary": lambda rng: MultiHeadAttention(
        32, 8, rng, n_kv_heads=4, bias=False, positions=RotaryPositions(4), dtype=F64),
    "causal": lambda rng: MultiHeadAttention(16, 4, rng, d_head=6, dtype=F64),
}


def error(found, expected):
    return relative_distance({"": found}, {"": expected})


def gathered(comm, whole, part):
    """The largest error of the parts' gradients, put together, relative to the largest gradient.

    (That of a key's bias is 0 but for rounding: it changes all scores of a query alike.)
    """
    scale = float(max(abs(parameter.grad).max() for parameter in whole.parameters()))
    differences, parts = [], comm.allgather({name: p.grad for name, p in part.named_parameters()})
    for name, parameter in whole.named_parameters():
        pieces = [piece[name] for piece in parts if name in piece]
        if name == "output.bias":
            assert len(pieces) == 1                   # only part 0 has it
        axis = 0 if name.startswith("output") else -1
        differences.append(largest_difference(np.concatenate(pieces, axis=axis), parameter.grad))
    return largest(differences) / scale


def compared(comm, name):
    rng = np.random.default_rng(5)
    whole, counts = LAYERS[name](rng), []

    def total(partial):
        counts.append(partial.shape)
        return comm.allreduce(partial)

    part = TensorParallel(whole, comm.rank, comm.size, total)
    width = (whole.query if hasattr(whole, "query") else whole.hidden).weight.data.shape[0]
    x, dy = rng.standard_normal((2, 2, 5, width))
    options = {"pattern": CAUSAL if name == "causal" else EVERYWHERE} if "query" in vars(
        whole) else {}
    (y, saved), (part_y, part_saved) = (each.forward(x, **options) for each in (whole, part))
    dx, part_dx = whole.backward(dy, saved), part.backward(dy, part_saved)
    return {"y": error(part_y, y), "dx": error(part_dx, dx),
            "parameters": gathered(comm, whole, part.share), "sums": len(counts),
            "numbers": sum(p.data.size for p in part.parameters()),
            "of": sum(p.data.size for p in whole.parameters())}


def block(comm):
    """A whole pre-norm block: (errors of y and dx, the number of sums)."""
    rng, counts = np.random.default_rng(7), []
    norms = LayerNorm(16, dtype=F64), LayerNorm(16, dtype=F64)
    branches = MultiHeadAttention(16, 4, rng, dtype=F64), FeedForward(16, 64, "gelu", rng,
                                                                      dtype=F64)

    def total(partial):
        counts.append(partial.shape)
        return comm.allreduce(partial)

    def run(branches, x, dy):
        kept = []
        for norm, branch in zip(norms, branches):
            normed, saved_norm = norm.forward(x)
            change, saved = branch.forward(normed)
            x = x + change
            kept.append((saved_norm, saved))
        for norm, branch, (saved_norm, saved) in zip(norms[::-1], branches[::-1], kept[::-1]):
            # x = x + branch(norm(x))
            dy = dy + norm.backward(branch.backward(dy, saved), saved_norm)
        return x, dy

    x, dy = rng.standard_normal((2, 2, 5, 16))
    expected = run(branches, x, dy)
    found = run([TensorParallel(each, comm.rank, comm.size, total) for each in branches], x, dy)
    return [error(a, b) for a, b in zip(found, expected)], len(counts)


if __name__ == "__main__":
    from mpi4py import MPI                            # not where this page is only collected

    found = {name: compared(MPI.COMM_WORLD, name) for name in LAYERS}
    found["block"] = block(MPI.COMM_WORLD)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))
