"""A second witness: PyTorch's autograd in float64, with the same weights and inputs. Skipped where it is not installed."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import FeedForward, LayerNorm, Linear, MultiHeadAttention, PostNormBlock, PreNormBlock
from numformer.models import Decoder, DecoderConfig
from numformer.training import SGD, Adam, AdamW, BlockStream, Trainer, TrainingConfig, clip_factor, global_norm, learning_rate

torch = pytest.importorskip("torch")
from torch_copies import copy_attention, copy_linear, copy_norm, projections, tensor  # noqa: E402  (needs PyTorch)

nn = torch.nn.functional


def agree(pair, pair_backward, theirs, arrays, *constants, **options):
    """Forward to 1e-12 and gradients to 1e-11 (relative to the largest) against a PyTorch function of the same arrays."""
    y, saved = pair(*arrays, *constants, **options)
    tensors = [tensor(array) for array in arrays]
    expected = theirs(*tensors)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    dy = np.random.default_rng(0).standard_normal(np.shape(y))
    expected.backward(torch.tensor(dy))
    gradients = pair_backward(dy if dy.shape else float(dy), saved)
    for gradient, t in zip(gradients if isinstance(gradients, tuple) else (gradients,), tensors, strict=True):
        np.testing.assert_allclose(gradient, t.grad.numpy(), rtol=1e-11, atol=1e-11 * float(t.grad.abs().max()))


@pytest.mark.parametrize("ours, theirs", [
    (F.relu, nn.relu), (F.gelu, nn.gelu), (F.gelu_tanh, lambda x: nn.gelu(x, approximate="tanh")), (F.silu, nn.silu),
    (F.sigmoid, torch.sigmoid),
    (F.softmax, lambda x: nn.softmax(x, -1)), (F.log_softmax, lambda x: nn.log_softmax(x, -1))])
def test_pointwise_and_softmax(ours, theirs, rng):
    agree(ours, getattr(F, ours.__name__ + "_backward"), theirs, [3 * rng.standard_normal((4, 7))])


def test_norms(rng):
    x, gain, shift = rng.standard_normal((3, 6)), rng.standard_normal(6), rng.standard_normal(6)
    agree(F.layer_norm, F.layer_norm_backward, lambda x, g, b: nn.layer_norm(x, (6,), g, b, 1e-3), [x, gain, shift], epsilon=1e-3)
    agree(F.rms_norm, F.rms_norm_backward, lambda x, g: nn.rms_norm(x, (6,), g, 1e-3), [x, gain], epsilon=1e-3)


def test_linear_and_embedding(rng):
    agree(F.linear, F.linear_backward, lambda x, w, b: nn.linear(x, w.T, b), [rng.standard_normal(s) for s in ((2, 3, 4), (4, 5), (5,))])
    ids = np.array([[1, 0, 1], [4, 1, 2]])
    agree(lambda w: F.embedding(ids, w), F.embedding_backward, lambda w: nn.embedding(torch.tensor(ids), w), [rng.standard_normal((5, 3))])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(smoothing, rng):
    targets = np.array([1, -100, 4, 0])
    agree(F.cross_entropy, F.cross_entropy_backward, lambda z: nn.cross_entropy(z, torch.tensor(targets), label_smoothing=smoothing),
          [rng.standard_normal((4, 5))], targets, label_smoothing=smoothing)


@pytest.mark.parametrize("pattern", [AttentionPattern(), CAUSAL, AttentionPattern(window=(1, 1)), AttentionPattern(lengths=[4, 2]),
                                     AttentionPattern(mask=np.random.default_rng(1).random((2, 4, 4, 4)) < 0.8)])
def test_attention(pattern, rng):
    mask = torch.tensor(pattern.dense(4, 4))
    agree(F.scaled_dot_product_attention, F.scaled_dot_product_attention_backward,
          lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True),
          [rng.standard_normal(s) for s in ((2, 4, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3))], pattern)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_block(norm_first, activation, rng):
    kind = PreNormBlock if norm_first else PostNormBlock
    ours = kind(LayerNorm(8, dtype=np.float64), MultiHeadAttention(8, 2, rng, dtype=np.float64), LayerNorm(8, dtype=np.float64),
                FeedForward(8, 12, activation, rng, dtype=np.float64))
    for parameter in ours.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64)
    copy_attention(ours.attention, theirs.self_attn)
    linears = [(ours.feedforward.hidden, theirs.linear1), (ours.feedforward.output, theirs.linear2)]
    norms = [(ours.norm1, theirs.norm1), (ours.norm2, theirs.norm2)]
    for mine, other in linears:
        copy_linear(mine, other)
    for mine, other in norms:
        copy_norm(mine, other)
    x, dy = rng.standard_normal((2, 2, 5, 8))
    y, saved = ours.forward(x, CAUSAL)
    x_tensor = tensor(x)
    expected = theirs(x_tensor, src_mask=torch.tensor(~CAUSAL.dense(5, 5)))
    expected.backward(torch.tensor(dy))
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.backward(dy, saved), x_tensor.grad.numpy(), rtol=1e-11, atol=1e-11)
    for mine, other in linears:
        np.testing.assert_allclose(mine.weight.grad, other.weight.grad.numpy().T, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(mine.bias.grad, other.bias.grad.numpy(), rtol=1e-11, atol=1e-11)
    for mine, other in norms:
        np.testing.assert_allclose(mine.gain.grad, other.weight.grad.numpy(), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(mine.shift.grad, other.bias.grad.numpy(), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(np.concatenate([p.weight.grad.T for p in projections(ours.attention)]),
                               theirs.self_attn.in_proj_weight.grad.numpy(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("ours, theirs", [
    (lambda m: SGD(m, 0.8), lambda p: torch.optim.SGD(p, 0.1, momentum=0.8)),
    (lambda m: Adam(m, 0.8, 0.95), lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.95))),
    (lambda m: AdamW(m, 0.8, 0.95, weight_decay=0.3), lambda p: torch.optim.AdamW(
        [{"params": p[:1]}, {"params": p[1:], "weight_decay": 0}], 0.1, (0.8, 0.95), weight_decay=0.3))])
def test_optimizers(ours, theirs, rng):
    layer = Linear(3, 4, rng, dtype=np.float64)
    parameters = [tensor(parameter.data.copy()) for parameter in layer.parameters()]
    mine, other = ours(layer), theirs(parameters)
    for _ in range(6):
        for parameter, t in zip(layer.parameters(), parameters):
            parameter.grad[...] = rng.standard_normal(parameter.data.shape)
            t.grad = torch.tensor(parameter.grad)
        mine.step(0.1)
        other.step()
    for parameter, t in zip(layer.parameters(), parameters):
        np.testing.assert_allclose(parameter.data, t.detach().numpy(), rtol=1e-11)


def test_clipping(rng):
    layer = Linear(3, 4, rng, dtype=np.float64)
    parameters = [tensor(parameter.data) for parameter in layer.parameters()]
    for parameter, t in zip(layer.parameters(), parameters):
        parameter.grad[...] = rng.standard_normal(parameter.data.shape)
        t.grad = torch.tensor(parameter.grad)
    norm = global_norm(layer.parameters())
    assert abs(norm - float(torch.nn.utils.clip_grad_norm_(parameters, 2.0))) < 1e-12
    for parameter, t in zip(layer.parameters(), parameters):
        np.testing.assert_allclose(parameter.grad * clip_factor(norm, 2.0), t.grad.numpy(), rtol=1e-6)   # theirs: norm + 1e-6


def test_training_a_decoder_follows_pytorch_step_by_step(rng):
    """The same weights and batches: model, loss, clipping, schedule and AdamW together, in float64."""
    config = DecoderConfig(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=16, bias=False, dtype="float64")
    settings = TrainingConfig(steps=20, batch_size=6, shards=2, learning_rate=0.01, min_learning_rate=0.001, warmup_steps=4)
    ours = Trainer(Decoder(config, rng), BlockStream(np.arange(500) % 11, 8, 6, seed=0), [], settings)
    p = {name: tensor(array) for name, array in ours.model.state_dict().items()}

    def logits(ids):
        B, T = ids.shape
        x = p["embedding.weight"][ids] + p["positions.weight"][:T]
        for block in ("blocks.0.", "blocks.1."):
            a = nn.layer_norm(x, (16,), p[block + "norm1.gain"])
            q, k, v = ((a @ p[f"{block}attention.{name}.weight"]).view(B, T, 2, 8).transpose(1, 2) for name in ("query", "key", "value"))
            o = nn.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, 16)
            x = x + o @ p[block + "attention.output.weight"]
            f = nn.layer_norm(x, (16,), p[block + "norm2.gain"])
            x = x + nn.gelu(f @ p[block + "feedforward.hidden.weight"], approximate="tanh") @ p[block + "feedforward.output.weight"]
        return nn.layer_norm(x, (16,), p["norm.gain"]) @ p["embedding.weight"].T

    groups = [{"params": [t for t in p.values() if t.ndim == 2], "weight_decay": 0.1},
              {"params": [t for t in p.values() if t.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step in range(20):
        inputs, targets = (torch.tensor(ids) for ids in ours.stream.batch(step))
        loss = nn.cross_entropy(logits(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((t.grad ** 2).sum() for t in p.values()))
        for t in p.values():
            t.grad *= min(1.0, 1.0 / float(norm))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate("cosine", step, 20, 0.01, 0.001, 4)
        optimizer.step()
        metrics = ours.train_step()
        assert abs(metrics["loss"] - loss.item()) < 1e-10 and abs(metrics["gradient_norm"] - float(norm)) < 1e-9
    assert metrics["loss"] < 1.5
