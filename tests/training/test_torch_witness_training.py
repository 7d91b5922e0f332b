"""Optimizers, clipping and a whole training run against PyTorch, in float64."""

import numpy as np
import pytest

from numformer.data import BlockStream
from numformer.layers import Linear
from numformer.models import Decoder, DecoderConfig
from numformer.training import (
    SGD, Adam, AdamW, Trainer, TrainingConfig, clip_factor, global_norm, learning_rate)

torch = pytest.importorskip("torch")
from torch_copies import tensor  # noqa: E402  (needs PyTorch)

nn = torch.nn.functional


@pytest.mark.parametrize("ours, theirs", [
    (lambda m: SGD(m, 0.8), lambda p: torch.optim.SGD(p, 0.1, momentum=0.8)),
    (lambda m: Adam(m, 0.8, 0.95), lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.95))),
    (lambda m: AdamW(m, 0.8, 0.95, weight_decay=0.3), lambda p: torch.optim.AdamW(
        [{"params": p[:1]}, {"params": p[1:], "weight_decay": 0}], 0.1, (0.8, 0.95),
        weight_decay=0.3))])
def test_optimizers_make_the_same_steps(ours, theirs, rng):
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


def test_clipping_scales_gradients_alike(rng):
    layer = Linear(3, 4, rng, dtype=np.float64)
    parameters = [tensor(parameter.data) for parameter in layer.parameters()]
    for parameter, t in zip(layer.parameters(), parameters):
        parameter.grad[...] = rng.standard_normal(parameter.data.shape)
        t.grad = torch.tensor(parameter.grad)
    norm = global_norm(layer.parameters())
    assert abs(norm - float(torch.nn.utils.clip_grad_norm_(parameters, 2.0))) < 1e-12
    factor = clip_factor(norm, 2.0)                                  # theirs divides by norm + 1e-6
    for parameter, t in zip(layer.parameters(), parameters):
        np.testing.assert_allclose(parameter.grad * factor, t.grad.numpy(), rtol=1e-6)


def torch_logits(p, ids):
    """A decoder with two layers and two heads, written out."""
    B, T = ids.shape
    x = p["embedding.weight"][ids] + p["positions.weight"][:T]
    for block in ("blocks.0.", "blocks.1."):
        a = nn.layer_norm(x, (16,), p[block + "norm1.weight"])
        q, k, v = ((a @ p[f"{block}attention.{name}.weight"]).view(B, T, 2, 8).transpose(1, 2)
                   for name in ("query", "key", "value"))
        o = nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.transpose(1, 2).reshape(B, T, 16) @ p[block + "attention.output.weight"]
        f = nn.layer_norm(x, (16,), p[block + "norm2.weight"])
        f = nn.gelu(f @ p[block + "feedforward.hidden.weight"], approximate="tanh")
        x = x + f @ p[block + "feedforward.output.weight"]
    return nn.layer_norm(x, (16,), p["norm.weight"]) @ p["embedding.weight"].T


def test_training_a_decoder_follows_pytorch_step_by_step(rng):
    """The same weights and batches: model, loss, clipping, schedule and AdamW together."""
    config = DecoderConfig(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=16,
                           bias=False, dtype="float64")
    settings = TrainingConfig(steps=20, batch_size=6, shards=2, learning_rate=0.01,
                              min_learning_rate=0.001, warmup_steps=4)
    stream = BlockStream(np.arange(500) % 11, 8, 6, seed=0)
    ours = Trainer(Decoder(config, rng), stream, [], settings)
    p = {name: tensor(array) for name, array in ours.model.state_dict().items()}
    groups = [{"params": [t for t in p.values() if t.ndim == 2], "weight_decay": 0.1},
              {"params": [t for t in p.values() if t.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step in range(20):
        inputs, targets = (torch.tensor(ids) for ids in ours.stream.batch(step))
        loss = nn.cross_entropy(torch_logits(p, inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((t.grad ** 2).sum() for t in p.values()))
        for t in p.values():
            t.grad *= min(1.0, 1.0 / float(norm))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate("cosine", step, 20, 0.01, 0.001, 4)
        optimizer.step()
        metrics = ours.train_step()
        assert abs(metrics["loss"] - loss.item()) < 1e-10
        assert abs(metrics["gradient_norm"] - float(norm)) < 1e-9
    assert metrics["loss"] < 1.5
