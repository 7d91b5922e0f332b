"""Residual branches and blocks: orders of the norm, steps with a cache, names, bad arguments."""

import numpy as np
import pytest

from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import (
    CrossAttentionBranch, FeedForward, LayerNorm, MixtureOfExperts, MultiHeadAttention,
    ParallelBlock, ResidualBranch, SelfAttentionBranch, TransformerBlock)

C, ORDERS = 8, ["pre", "post", "sandwich"]
KINDS = [(TransformerBlock, order) for order in ORDERS] + [
    (ParallelBlock, "pre"), (ParallelBlock, "sandwich")]


def norm():
    return LayerNorm(C, dtype=np.float64)


def attention(rng):
    return MultiHeadAttention(C, 2, rng, dtype=np.float64)


def feedforward(rng):
    return FeedForward(C, 12, "gelu", rng, dtype=np.float64)


def branch(kind, sublayer, order, dropout=0.0):
    output_norm = norm() if order == "sandwich" else None
    return kind(norm(), sublayer, order, dropout, output_norm)


def block_of(rng, kind=TransformerBlock, order="pre", cross=False, mixture=None):
    middle = {"cross_attention": branch(CrossAttentionBranch, attention(rng), order)}
    block = kind(attention=branch(SelfAttentionBranch, attention(rng), order),
                 **(middle if cross else {}),
                 feedforward=branch(ResidualBranch, mixture or feedforward(rng), order))
    for parameter in block.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    return block


def test_a_pre_norm_branch_normalizes_what_the_sublayer_reads(rng):
    part, x = branch(ResidualBranch, feedforward(rng), "pre"), rng.standard_normal((2, 3, C))
    assert np.array_equal(part(x), x + part.sublayer(part.norm(x)))


def test_a_post_norm_branch_normalizes_the_sum(rng):
    part, x = branch(ResidualBranch, feedforward(rng), "post"), rng.standard_normal((2, 3, C))
    assert np.array_equal(part(x), part.norm(x + part.sublayer(x)))


def test_a_sandwich_branch_normalizes_on_both_sides_of_the_sublayer(rng):
    part, x = branch(ResidualBranch, feedforward(rng), "sandwich"), rng.standard_normal((2, 3, C))
    assert np.array_equal(part(x), x + part.output_norm(part.sublayer(part.norm(x))))


def test_parallel_branches_read_the_same_input(rng):
    block, x = block_of(rng, ParallelBlock), rng.standard_normal((2, 3, C))
    a = block.attention(block.norm1(x), pattern=CAUSAL)
    assert np.array_equal(block(x, pattern=CAUSAL), x + a + block.feedforward(block.norm2(x)))


def test_one_norm_for_both_parallel_branches_is_one_parameter(rng):
    shared = norm()
    block = ParallelBlock(attention=SelfAttentionBranch(shared, attention(rng)),
                          feedforward=ResidualBranch(shared, feedforward(rng)))
    names = [name for name, _ in block.named_parameters()]
    assert names[:2] == ["norm1.weight", "norm1.bias"] and "norm2.weight" not in names
    replica = block.replica()
    assert replica.norm1 is replica.norm2 is replica.branches["feedforward"].norm


@pytest.mark.parametrize("kind, order", KINDS)
@pytest.mark.parametrize("cross", [False, True])
def test_steps_equal_the_forward(kind, order, cross, rng):
    block, x = block_of(rng, kind, order, cross), rng.standard_normal((2, 7, C))
    context, options = rng.standard_normal((2, 5, C)) if cross else None, {}
    padding = AttentionPattern(lengths=[5, 2])
    if cross:
        options = dict(memory=block.cross_attention.precompute_kv(context), memory_pattern=padding)
    cache, parts = None, []
    for start, stop in ((0, 3), (3, 4), (4, 7)):
        y, cache = block.step(x[:, start:stop], cache, **options)
        parts.append(y)
    whole = block(x, context, CAUSAL, padding)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-11, atol=1e-12)
    assert len(cache) == 7


def test_names_of_parameters_are_those_of_the_parts(rng):
    names = [name for name, _ in block_of(rng, cross=True).named_parameters()]
    assert list(dict.fromkeys(name.split(".")[0] for name in names)) == [
        "norm1", "attention", "norm2", "cross_attention", "norm3", "feedforward"]
    sandwich = block_of(rng, order="sandwich")
    assert sandwich.output_norm1 is sandwich.branches["attention"].output_norm
    assert "output_norm2.weight" in sandwich.state_dict()


@pytest.mark.parametrize("kind", [TransformerBlock, ParallelBlock])
def test_the_auxiliary_loss_is_that_of_the_experts(kind, rng):
    mixture = MixtureOfExperts(C, 6, 3, 2, "gelu", rng, dtype=np.float64)
    block, x = block_of(rng, kind, mixture=mixture), rng.standard_normal((2, 3, C))
    _, saved = block.forward(x)
    inside = block.norm2(x if kind is ParallelBlock else block.branches["attention"](x))
    assert block.auxiliary_loss(saved) == mixture.auxiliary_loss(mixture.forward(inside)[1]) > 0
    block.backward(np.zeros_like(x), saved)
    assert not mixture.router.weight.grad.any()
    block.backward(np.zeros_like(x), saved, dauxiliary=1.0)
    assert mixture.router.weight.grad.any()
    assert block_of(rng, kind).auxiliary_loss(block_of(rng, kind).forward(x)[1]) == 0


def test_the_auxiliary_loss_has_no_gradient_unless_given(rng):
    mixture = MixtureOfExperts(C, 6, 3, 2, "gelu", rng, dtype=np.float64)
    part, x = branch(ResidualBranch, mixture, "pre"), rng.standard_normal((2, 3, C))
    for forward, backward in ((part.forward, part.backward), (part.update, part.update_backward)):
        y, saved = forward(x)
        backward(np.zeros_like(y), saved)
        assert not mixture.router.weight.grad.any()


def test_dropout_of_a_branch_needs_a_generator(rng):
    part = branch(ResidualBranch, feedforward(rng), "pre", dropout=0.5)
    x = rng.standard_normal((2, 3, C))
    assert np.array_equal(part(x), part(x))
    y = part(x, rng=np.random.default_rng(0))
    dropped = y == x
    assert dropped.any() and not dropped.all()
    np.testing.assert_allclose((y - x)[~dropped], 2 * (part(x) - x)[~dropped], rtol=1e-12)


X = np.ones((1, 3, C))


@pytest.mark.parametrize("make, error, words", [
    (lambda r: ResidualBranch(norm(), feedforward(r), "before"), ValueError, "order='before'"),
    (lambda r: ResidualBranch(norm(), feedforward(r), "sandwich"), ValueError, "needs a second"),
    (lambda r: ResidualBranch(norm(), feedforward(r), output_norm=norm()), ValueError,
     "the other orders have none"),
    (lambda r: ResidualBranch(norm(), feedforward(r), dropout=1.0), ValueError, "dropout=1.0"),
    (lambda r: TransformerBlock(), ValueError, "there is no branch"),
    (lambda r: TransformerBlock(one=branch(SelfAttentionBranch, attention(r), "pre"),
                                two=branch(SelfAttentionBranch, attention(r), "pre")),
     ValueError, "one and two are each a SelfAttentionBranch"),
    (lambda r: block_of(r, ParallelBlock, "post"), ValueError, "attention is of order='post'"),
    (lambda r: block_of(r)(X, X), TypeError, "no branch reads a memory"),
    (lambda r: block_of(r, ParallelBlock)(X, CAUSAL), TypeError, "memory=AttentionPattern came"),
    (lambda r: block_of(r, cross=True)(X), TypeError, "memory is missing"),
    (lambda r: CrossAttentionBranch(norm(), attention(r))(X), TypeError, "memory is missing")])
def test_bad_arguments_are_named(make, error, words, rng):
    with pytest.raises(error, match=words):
        make(rng)
