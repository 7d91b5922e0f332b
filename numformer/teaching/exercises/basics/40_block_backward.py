"""The gradients of a block of a GPT: its layers in reverse, and two places where paths meet.

h = x + output(attention(qkv(norm1(x)))),   y = h + mlp2(gelu(mlp1(norm2(h))))

The backward of a layer in numformer.minimal takes the gradient of its result and what the forward
saved: dx, dweight, dbias = minimal.linear_backward(dy, saved). `saved` holds that of the eight
layers, in the order of the equations: norm1, qkv, attention, output, norm2, mlp1, gelu, mlp2.
Return dx, and dweight and dbias of norm1, qkv, output, norm2, mlp1 and mlp2, in this order.
"""
# goal: run a model backwards, layer by layer
# needs: block, linear_backward, layer_norm_backward
# lessons: 7, 22
# ideas: the layers in reverse; a sum where a value is used twice; the gradient that goes on
# points: 4
# parts: all or nothing
# returns: dx, norm1, norm1_b, qkv, qkv_b, out, out_b, norm2, norm2_b, mlp1, mlp1_b, mlp2, mlp2_b
# BEGIN HINTS
# 1. h is used twice: it is added to the result, and it goes into norm2. Its gradient is the sum of
#    what comes back on both ways. The same holds for x, with the gradient of h.
# 2. dy goes through mlp2, gelu, mlp1 and norm2 backwards: that is dm, and dh = dy + dm. Then dh,
#    not dy, goes through output, attention, qkv and norm1.
# 3. dm, *dmlp2 = minimal.linear_backward(dy, mlp2) keeps both gradients of a layer in a list, and
#    `return dh + da, *dnorm1, *dqkv, ...` returns all.
# END HINTS

import numformer.minimal as minimal


def block_backward(dy, saved):
    """dy (B, T, C) and what the block saved: to dx (B, T, C) and 12 gradients."""
    # BEGIN SOLUTION
    norm1, qkv, attention, output, norm2, mlp1, gelu, mlp2 = saved
    dm, *dmlp2 = minimal.linear_backward(dy, mlp2)
    dm = minimal.gelu_backward(dm, gelu)
    dm, *dmlp1 = minimal.linear_backward(dm, mlp1)
    dm, *dnorm2 = minimal.layer_norm_backward(dm, norm2)
    dh = dy + dm
    da, *doutput = minimal.linear_backward(dh, output)
    da = minimal.attention_backward(da, attention)
    da, *dqkv = minimal.linear_backward(da, qkv)
    da, *dnorm1 = minimal.layer_norm_backward(da, norm1)
    return dh + da, *dnorm1, *dqkv, *doutput, *dnorm2, *dmlp1, *dmlp2
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arguments(B, T, C, F):
        def layer(*shape):
            return [rng.normal(size=shape), rng.normal(size=shape[-1:])]

        p = {"norm1.0": layer(C), "qkv.0": layer(C, 3 * C), "output.0": layer(C, C),
             "norm2.0": layer(C), "mlp1.0": layer(C, F), "mlp2.0": layer(F, C)}
        return rng.normal(size=(B, T, C)), minimal.block(rng.normal(size=(B, T, C)), p, 0)[1]

    return {"plain": arguments(2, 5, 8, 12), "one sequence of one position": arguments(1, 1, 4, 3),
            "more positions than numbers in a vector": arguments(1, 9, 4, 16)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def block_backward(dy, saved):
            norm1, qkv, attention, output, norm2, mlp1, gelu, mlp2 = saved
            dm, *dmlp2 = minimal.linear_backward(dy, mlp2)
            dm = dm if mistake == "gelu" else minimal.gelu_backward(dm, gelu)
            dm, *dmlp1 = minimal.linear_backward(dm, mlp1)
            dm, *dnorm2 = minimal.layer_norm_backward(dm, norm2)
            dh = dm if mistake == "dh is dm" else dy + dm
            da, *doutput = minimal.linear_backward(
                {"dy for dh": dy, "dm for dh": dm}.get(mistake, dh), output)
            da = minimal.attention_backward(da, attention)
            da, *dqkv = minimal.linear_backward(da, qkv)
            da, *dnorm1 = minimal.layer_norm_backward(da, norm1)
            dx = da + {"no dh": 0, "dy in dx": dy, "dm in dx": dm}.get(mistake, dh)
            return dx, *dnorm1, *dqkv, *doutput, *dnorm2, *dmlp1, *dmlp2
        return block_backward

    return {words: wrong(mistake) for words, mistake in (
        ("dy, not dh, goes back through the attention: the path through the second branch is lost",
         "dy for dh"),
        ("dm, not dh, goes back through the attention: the path past the second branch is lost",
         "dm for dh"),
        ("dh lacks dy: the path past the second branch is lost, as h is added to it", "dh is dm"),
        ("dx lacks dh: the path past the first branch is lost, as x is added to it", "no dh"),
        ("dx has dy in place of dh: the path past the first branch begins with the gradient of h",
         "dy in dx"),
        ("dx has dm in place of dh: the path past the first branch begins with the gradient of h",
         "dm in dx"),
        ("the backward of gelu is left out", "gelu"))}
# END TEACHER
