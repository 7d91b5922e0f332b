"""A pre-norm block in which the sum of a branch and the norm that reads it are one function.

    plain                                  in one pass
    n = norm1(x);  b = attention(n)        n = norm1(x);  b = attention(n)
    h = x + b                              h, n = add_and_norm(norm2, x, b)
    n = norm2(h);  b = feedforward(n)      b = feedforward(n)
    y = h + b                              y = h + b

The sum stays in the processor's cache until the norm has read it.
"""

from numformer.backend import add
from numformer.layers.blocks.add_and_norm import (
    add_and_norm, add_and_norm_backward, runs_with_the_sum)
from numformer.layers.blocks.residual import NO_NORM
from numformer.layers.dropout import Identity


def joins_sums_and_norms(branches):
    """Whether this is faster: the norms of branches but the first read sums, and run with them.

    The place of the norm of a sum has to be empty: another layer there may compute anything.
    """
    return all(type(branch.sum_norm) is Identity for branch in branches) and any(
        runs_with_the_sum(branch.input_norm) for branch in branches[1:])


def forward_in_one_pass(branches, x, memory, pattern, memory_pattern, rng):
    """The branches in sequence; parameters as in `ResidualBranch.forward`."""
    first_norm, *next_norms = _input_norms(branches)
    n, saved_norm = first_norm.forward(x)                             # the shape of x
    saved_branches = []
    for branch, next_norm in zip(branches, next_norms):
        b, saved_update = branch.update(n, memory, pattern, memory_pattern, rng)
        (x, n), saved_sum = add_and_norm(next_norm, x, b, branch.dropout, rng)
        saved_branches.append((saved_update, saved_sum))

    saved = (saved_branches, saved_norm)
    return x, saved


def backward_in_one_pass(branches, dy, saved, dauxiliary):
    """Gradient of `x`, or of `x` and the memory where a branch reads it."""
    saved_branches, saved_norm = saved
    first_norm, *next_norms = _input_norms(branches)
    dx, dn, dmemory = None, dy, ()                                    # y is the last n
    for branch, next_norm, (saved_update, saved_sum) in zip(
            reversed(branches), reversed(next_norms), reversed(saved_branches)):
        # x, n = add_and_norm(next_norm, x, b)
        dx, db = add_and_norm_backward(next_norm, dx, dn, saved_sum)

        # b = update(n, memory)
        dn, *more = branch.update_backward(db, saved_update, dauxiliary)
        dmemory = more if branch.reads_memory else dmemory

    # n = first_norm(x)
    dx = add(dx, first_norm.backward(dn, saved_norm))
    return (dx, *dmemory) if dmemory else dx


def _input_norms(branches):
    """That of each branch; and none after the last."""
    return [*(branch.input_norm for branch in branches), NO_NORM]
