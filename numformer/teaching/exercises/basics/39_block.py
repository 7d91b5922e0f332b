"""A block of a GPT: attention, then an MLP, each added to what came before.

h = x + output(attention(qkv(norm1(x)))),   y = h + mlp2(gelu(mlp1(norm2(h))))

qkv, output, mlp1 and mlp2 are linear maps, norm1 and norm2 are LayerNorms. The functions of
numformer.minimal return their result and what their backward needs, as in
y, saved = minimal.linear(x, weight, bias).
"""
# goal: wire layers into a residual block
# needs: layer_norm, linear, scaled_dot_product_attention
# lessons: 7, 22
# ideas: the norm is inside of a branch; a branch is added to its input
# points: 2
# parts: all or nothing
# returns: y
# BEGIN HINTS
# 1. There are two branches. Each begins with a norm, and its result is added to what went into that
#    norm. What goes into the second norm?
# 2. Each layer returns a pair, of which the first is needed: a, _ = minimal.layer_norm(x, *norm1).
#    attention takes q, k and v as one array, as qkv makes them.
# 3. a is x through norm1, qkv, attention, output; h = x + a. m is h through norm2, mlp1, gelu,
#    mlp2; the result is h + m, not x + m.
# END HINTS

import numformer.minimal as minimal


def block(x, norm1, qkv, output, norm2, mlp1, mlp2):
    """x (B, T, C); the others are [weight, bias] of each layer: to y (B, T, C)."""
    # BEGIN SOLUTION
    a, _ = minimal.layer_norm(x, *norm1)
    a, _ = minimal.linear(a, *qkv)
    a, _ = minimal.attention(a)
    a, _ = minimal.linear(a, *output)
    h = x + a
    m, _ = minimal.layer_norm(h, *norm2)
    m, _ = minimal.linear(m, *mlp1)
    m, _ = minimal.gelu(m)
    m, _ = minimal.linear(m, *mlp2)
    return h + m
    # END SOLUTION


# BEGIN TEACHER
def problems(rng):
    """Arguments, by what is special about them."""
    def arguments(B, T, C, F):
        def layer(*shape):
            return [rng.normal(size=shape), rng.normal(size=shape[-1:])]

        return (rng.normal(size=(B, T, C)), layer(C), layer(C, 3 * C), layer(C, C), layer(C),
                layer(C, F), layer(F, C))

    return {"plain": arguments(2, 5, 8, 12), "one sequence of one position": arguments(1, 1, 4, 3),
            "more positions than numbers in a vector": arguments(1, 9, 4, 16)}


def mistakes():
    """Likely wrong functions, by what is wrong in them."""
    def wrong(mistake):
        def block(x, norm1, qkv, output, norm2, mlp1, mlp2):
            a = x if mistake == "norm1" else minimal.layer_norm(x, *norm1)[0]
            a = minimal.attention(minimal.linear(a, *qkv)[0])[0]
            a = a if mistake == "output" else minimal.linear(a, *output)[0]
            h = a if mistake == "first sum" else x + a
            m = x if mistake == "norm2 of x" else h
            m = m if mistake == "norm2" else minimal.layer_norm(m, *norm2)[0]
            m = minimal.linear(m, *mlp1)[0]
            m = m if mistake == "gelu" else minimal.gelu(m)[0]
            m = minimal.linear(m, *mlp2)[0]
            return m + {"second sum": 0, "x + m": x, "both": x + h}.get(mistake, h)
        return block

    return {words: wrong(mistake) for words, mistake in (
        ("norm2 gets x, but must get h, which has the first branch in it", "norm2 of x"),
        ("the second branch is added to x, but must be added to h", "x + m"),
        ("the second branch is added to x and to h, but h has x in it", "both"),
        ("x is not added to the first branch", "first sum"),
        ("h is not added to the second branch", "second sum"),
        ("norm1 is left out", "norm1"), ("norm2 is left out", "norm2"),
        ("the output projection is left out", "output"), ("gelu is left out", "gelu"))}
# END TEACHER
