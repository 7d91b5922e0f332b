"""Layers and models equal PyTorch's modules with the same weights.

Forward to 1e-12, gradients to 1e-11.
"""

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import (
    AdaptiveEmbedding, AdaptiveSoftmax, Attention, CrossAttentionBranch, Embedding, FeedForward,
    GEGLU, LayerNorm, LMHead, MultiHeadAttention, ResidualBranch, SelfAttention,
    SelfAttentionBranch, SwiGLU, SwishFeedForward, TiledAttention, TransformerBlock)
from numformer.models import Decoder, DecoderConfig

torch = pytest.importorskip("torch")
from torch_copies import (  # noqa: E402  (needs PyTorch)
    agree, close, copy_attention, copy_linear, copy_norm, projections, random_layer, tensor,
    tensors)

nn = torch.nn.functional


@pytest.mark.parametrize("layer, shape, theirs", [
    (lambda r: FeedForward(3, 7, "gelu", r, dtype=float), (2, 4, 3), lambda p, x: nn.linear(
        nn.gelu(nn.linear(x, p["hidden.weight"].T, p["hidden.bias"])),
        p["output.weight"].T, p["output.bias"])),
    (lambda r: FeedForward(3, 7, "gelu_tanh", r, bias=False, dtype=float), (4, 3),
     lambda p, x: nn.gelu(x @ p["hidden.weight"], approximate="tanh") @ p["output.weight"]),
    (lambda r: FeedForward(3, 7, "relu", r, bias=False, dtype=float), (4, 3), lambda p, x: nn.relu(
        x @ p["hidden.weight"]) @ p["output.weight"]),
    (lambda r: SwishFeedForward(3, 7, r, bias=False, dtype=float), (2, 4, 3), lambda p, x: (
        x @ p["hidden.weight"] * torch.sigmoid(p["swish.beta"] * (x @ p["hidden.weight"])))
        @ p["output.weight"]),
    (lambda r: SwiGLU(3, 5, r, bias=False, dtype=float), (2, 4, 3), lambda p, x: (
        nn.silu(x @ p["gate.weight"]) * (x @ p["hidden.weight"])) @ p["output.weight"]),
    (lambda r: GEGLU(3, 5, r, bias=False, dtype=float), (2, 4, 3), lambda p, x: (
        nn.gelu(x @ p["gate.weight"]) * (x @ p["hidden.weight"])) @ p["output.weight"]),
    (lambda r: SelfAttention(5, 3, r, d_query=4, dtype=float), (2, 6, 5),
     lambda p, x: nn.scaled_dot_product_attention(
         x @ p["query.weight"], x @ p["key.weight"], x @ p["value.weight"]))])
def test_layers_equal_torch(layer, shape, theirs, rng):
    agree(random_layer(layer(rng), rng), [rng.standard_normal(shape)], theirs, rng)


def test_attention_with_given_queries_equals_torch(rng):
    layer = random_layer(Attention(4, 5, 3, rng, dtype=float), rng)
    agree(layer, [rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 6, 5))],
          lambda p, q, x: nn.scaled_dot_product_attention(
              q, x @ p["key.weight"], x @ p["value.weight"]), rng)


@pytest.mark.parametrize("version", ["numpy", "numba"])
def test_tiles_equal_torch(version, rng):
    shapes = (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 2)
    with backend.using(version):
        agree(TiledAttention(tile=3), [rng.standard_normal(shape) for shape in shapes],
              lambda p, q, k, v: nn.scaled_dot_product_attention(q, k, v), rng)


def test_embedding_and_head_equal_torch(rng):
    layer = random_layer(Embedding(6, 4, rng, dtype=float), rng)
    ids = np.array([[3, 1, 4], [1, 5, 1]])
    agree(layer, [ids], lambda p, ids: nn.embedding(ids, p["weight"]), rng)
    layer.zero_grad()
    agree(LMHead(layer.weight), [rng.standard_normal((2, 3, 4))], lambda p, x: x @ p["weight"].T,
          rng)


def test_adaptive_softmax_equals_torch(rng):
    ours = random_layer(AdaptiveSoftmax(AdaptiveEmbedding(
        12, 8, (3, 7), rng, factor=2, dtype=float), rng), rng)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2, dtype=torch.float64)
    head = np.concatenate([ours.tables[0].data, ours.clusters.data])
    with torch.no_grad():
        theirs.head.weight.copy_(tensor(head))
        for module, W, E in zip(theirs.tail, ours.projections, ours.tables[1:]):
            module[0].weight.copy_(tensor(W.data))
            module[1].weight.copy_(tensor(E.data))
    x, targets, dy = rng.standard_normal((20, 8)), rng.integers(0, 12, 20), rng.standard_normal(20)
    y, saved = ours.forward(x, targets)
    dx, their_x = ours.backward(dy, saved), tensor(x)
    output = theirs(their_x, torch.as_tensor(targets)).output
    output.backward(tensor(dy))
    close(y, output, 1e-12)
    close(dx, their_x.grad, 1e-11)
    close(np.concatenate([ours.tables[0].grad, ours.clusters.grad]), theirs.head.weight.grad, 1e-11)
    for module, W, E in zip(theirs.tail, ours.projections, ours.tables[1:]):
        close(W.grad, module[0].weight.grad, 1e-11)
        close(E.grad, module[1].weight.grad, 1e-11)
    close(ours.log_probabilities(x), theirs.log_prob(tensor(x)), 1e-12)


@pytest.mark.parametrize("context_width", [None, 5])
@pytest.mark.parametrize("pattern, theirs_mask, padding", [
    (EVERYWHERE, None, None), (CAUSAL, True, None),
    (AttentionPattern(lengths=[4, 2]), None, [4, 2]),
    (AttentionPattern(causal=True, lengths=[4, 2]), True, [4, 2])])
def test_multi_head_attention_equals_torch(context_width, pattern, theirs_mask, padding, rng):
    ours = random_layer(MultiHeadAttention(8, 2, rng, d_context=context_width, dtype=float), rng)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True, kdim=context_width,
                                         vdim=context_width, dtype=torch.float64)
    copy_attention(ours, theirs)
    inputs = [rng.standard_normal((2, 4, 8))]
    if context_width is not None:
        inputs.append(rng.standard_normal((2, 4, context_width)))
    leaves = [tensor(x) for x in inputs]
    y, saved = ours.forward(*inputs, pattern=pattern)
    hidden = None if padding is None else torch.tensor(np.arange(4) >= np.array(padding)[:, None])
    mask = None if theirs_mask is None else torch.tensor(~CAUSAL.dense(4, 4))
    expected, _ = theirs(leaves[0], leaves[-1], leaves[-1], key_padding_mask=hidden, attn_mask=mask,
                         need_weights=False)
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    gradients = ours.backward(dy, saved)
    for gradient, leaf in zip(gradients if isinstance(gradients, tuple) else (gradients,), leaves,
                              strict=True):
        close(gradient, leaf.grad)
    close(ours.output.weight.grad, theirs.out_proj.weight.grad.T)
    close(np.concatenate([p.bias.grad for p in projections(ours)]), theirs.in_proj_bias.grad)
    found = [p.weight.grad.T for p in projections(ours)]
    if context_width is None:
        close(np.concatenate(found), theirs.in_proj_weight.grad)
    else:
        for gradient, name in zip(found, "qkv"):
            close(gradient, getattr(theirs, f"{name}_proj_weight").grad)


def cross_block(norm_first, rng):
    """The decoder's block of 2017: causal attention, attention to a memory, feed-forward."""
    options, double = dict(order="pre" if norm_first else "post"), dict(dtype=float)
    attention, cross = (MultiHeadAttention(8, 2, rng, **double) for _ in range(2))
    feedforward = FeedForward(8, 12, "relu", rng, **double)
    return TransformerBlock(
        attention=SelfAttentionBranch(LayerNorm(8, **double), attention, **options),
        cross_attention=CrossAttentionBranch(LayerNorm(8, **double), cross, **options),
        feedforward=ResidualBranch(LayerNorm(8, **double), feedforward, **options))


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_block_with_cross_attention_equals_torch(norm_first, rng):
    ours = random_layer(cross_block(norm_first, rng), rng)
    theirs = torch.nn.TransformerDecoderLayer(8, 2, 12, 0.0, "relu", batch_first=True,
                                              norm_first=norm_first, dtype=torch.float64)
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    pairs = [(ours.feedforward.hidden, theirs.linear1), (ours.feedforward.output, theirs.linear2)]
    norms = [(getattr(ours, f"norm{n}"), getattr(theirs, f"norm{n}")) for n in (1, 2, 3)]
    for mine, other in pairs:
        copy_linear(mine, other)
    for mine, other in norms:
        copy_norm(mine, other)
    inputs = [rng.standard_normal((2, 5, 8)), rng.standard_normal((2, 3, 8))]
    leaves = [tensor(x) for x in inputs]
    y, saved = ours.forward(*inputs, pattern=CAUSAL)
    expected = theirs(*leaves, tgt_mask=torch.tensor(~CAUSAL.dense(5, 5)))
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    for gradient, leaf in zip(ours.backward(dy, saved), leaves, strict=True):
        close(gradient, leaf.grad)
    for mine, other in pairs:
        close(mine.weight.grad, other.weight.grad.T)
        close(mine.bias.grad, other.bias.grad)
    for mine, other in norms:
        close(mine.weight.grad, other.weight.grad)
        close(mine.bias.grad, other.bias.grad)
    for mine, other in ((ours.attention, theirs.self_attn),
                        (ours.cross_attention, theirs.multihead_attn)):
        close(np.concatenate([p.weight.grad.T for p in projections(mine)]),
              other.in_proj_weight.grad)
        close(mine.output.weight.grad, other.out_proj.weight.grad.T)


def test_a_decoder_like_llama_equals_torch(rng):
    """Rotary positions, grouped heads, RMSNorm, SwiGLU, an untied head: logits and loss."""
    config = DecoderConfig(vocab_size=7, context_length=6, n_layers=2, n_heads=4, n_kv_heads=2,
                           d_model=16, d_hidden=12, norm="rms_norm",
                           feedforward="swiglu", positions="rotary", bias=False, tied=False,
                           dtype="float64")
    ours = random_layer(Decoder(config, rng), rng)
    p, ids = tensors(ours), rng.integers(0, 7, (2, 7))
    cosine, sine = (torch.tensor(np.concatenate([x, x], -1)) for x in F.rotary_angles(0, 6, 4))

    def turn(x):
        return x * cosine + torch.cat([-x[..., 2:], x[..., :2]], -1) * sine

    x = p["embedding.weight"][torch.tensor(ids[:, :-1])]
    for block in ("blocks.0.", "blocks.1."):
        a = nn.rms_norm(x, (16,), p[block + "norm1.weight"], 1e-5)
        q, k, v = ((a @ p[f"{block}attention.{name}.weight"]).view(2, 6, -1, 4).transpose(1, 2)
                   for name in ("query", "key", "value"))
        o = nn.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=True)
        x = x + o.transpose(1, 2).reshape(2, 6, 16) @ p[block + "attention.output.weight"]
        f = nn.rms_norm(x, (16,), p[block + "norm2.weight"], 1e-5)
        gate = nn.silu(f @ p[block + "feedforward.gate.weight"])
        f = gate * (f @ p[block + "feedforward.hidden.weight"])
        x = x + f @ p[block + "feedforward.output.weight"]
    expected = nn.cross_entropy((nn.rms_norm(x, (16,), p["norm.weight"],
                                             1e-5) @ p["head.weight"].T).flatten(0, 1),
                                torch.tensor(ids[:, 1:]).flatten())
    loss, saved = ours.loss((ids[:, :-1], ids[:, 1:]))
    close(loss, expected, 1e-12)
    ours.loss_backward(saved)
    expected.backward()
    largest = max(float(t.grad.abs().max()) for t in p.values())
    for name, parameter in ours.named_parameters():
        np.testing.assert_allclose(parameter.grad, p[name].grad.numpy(), rtol=1e-11,
                                   atol=1e-12 * largest, err_msg=name)
