"""Mixtures of experts equal PyTorch's autograd, and the Mixtral block of transformers."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import MixtureOfExperts
from numformer.models import Decoder, DecoderConfig

torch = pytest.importorskip("torch")
from torch_copies import agree, close, random_layer, tensor, tensors  # noqa: E402  (needs PyTorch)

nn = torch.nn.functional


def swiglu(p, e, x):
    gate, hidden, output = (p[f"experts.{e}.{name}.weight"]
                            for name in ("gate", "hidden", "output"))
    return (nn.silu(x @ gate) * (x @ hidden)) @ output


def gelu(p, e, x):
    h = nn.gelu(x @ p[f"experts.{e}.hidden.weight"] + p[f"experts.{e}.hidden.bias"])
    return h @ p[f"experts.{e}.output.weight"] + p[f"experts.{e}.output.bias"]


def mixed(p, x, E, k, gates_over, expert):
    """(y, logits, chosen): all experts on all tokens, most with weight 0."""
    logits = x @ p["router.weight"]
    chosen = logits.topk(k, dim=-1).indices
    taken = torch.zeros_like(logits).scatter(-1, chosen, 1.0)
    weights = nn.softmax(logits, -1) * taken
    if gates_over == "chosen":
        weights = weights / weights.sum(-1, keepdim=True)
    return sum(weights[..., e, None] * expert(p, e, x) for e in range(E)), logits, taken


def auxiliary(logits, taken, balance_weight, z_weight):
    E, p = logits.shape[-1], nn.softmax(logits, -1)
    f = taken.reshape(-1, E).sum(0) / taken.sum()
    balance = E * (f.detach() * p.reshape(-1, E).mean(0)).sum()
    return balance_weight * balance + z_weight * (torch.logsumexp(logits, -1) ** 2).mean()


@pytest.mark.parametrize("E, k, gates_over, gated", [
    (5, 2, "chosen", True), (4, 1, "all", False), (4, 3, "all", True), (3, 3, "chosen", False)])
def test_the_layer_equals_torch(E, k, gates_over, gated, rng):
    layer = random_layer(MixtureOfExperts(6, 7, E, k, "silu" if gated else "gelu", rng, gated=gated,
                                          gates_over=gates_over, bias=not gated,
                                          dtype=float), rng)
    agree(layer, [rng.standard_normal((2, 9, 6))],
          lambda p, x: mixed(p, x, E, k, gates_over, swiglu if gated else gelu)[0], rng)


def test_output_and_auxiliary_loss_equal_torch(rng):
    layer = random_layer(MixtureOfExperts(6, 7, 4, 2, "gelu", rng, balance_weight=0.7, z_weight=0.2,
                                          dtype=float), rng)
    x, dy = rng.standard_normal((2, 3, 5, 6))
    p, leaf = tensors(layer), tensor(x)
    y, logits, taken = mixed(p, leaf, 4, 2, "chosen", gelu)
    loss = auxiliary(logits, taken, 0.7, 0.2)
    _, saved = layer.forward(x)
    close(layer.auxiliary_loss(saved), loss, 1e-12)
    ((y * torch.tensor(dy)).sum() + 1.3 * loss).backward()
    close(layer.backward(dy, saved, 1.3), leaf.grad)
    largest = max(float(t.grad.abs().max()) for t in p.values())
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(parameter.grad, p[name].grad.numpy(), rtol=1e-11,
                                   atol=1e-12 * largest, err_msg=name)


def test_a_decoder_like_mixtral_equals_torch(rng):
    """The whole model and its loss, with the auxiliary losses of both blocks."""
    config = DecoderConfig(vocab_size=7, context_length=6, n_layers=2, n_heads=2, d_model=8,
                           d_hidden=5, norm="rms_norm",
                           feedforward="swiglu", positions="none", bias=False, tied=False,
                           dtype="float64", n_experts=4,
                           balance_weight=0.3, router_z_weight=0.1)
    ours = random_layer(Decoder(config, rng), rng)
    p, ids = tensors(ours), rng.integers(0, 7, (2, 7))
    x, extra = p["embedding.weight"][torch.tensor(ids[:, :-1])], 0
    for block in ("blocks.0.", "blocks.1."):
        a = nn.rms_norm(x, (8,), p[block + "norm1.weight"], 1e-5)
        q, k, v = ((a @ p[f"{block}attention.{name}.weight"]).view(2, 6, 2, 4).transpose(1, 2)
                   for name in ("query", "key", "value"))
        o = nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.transpose(1, 2).reshape(2, 6, 8) @ p[block + "attention.output.weight"]
        inner = {name.removeprefix(block + "feedforward."): t
                 for name, t in p.items() if name.startswith(block + "feedforward.")}
        y, logits, taken = mixed(inner, nn.rms_norm(x, (8,), p[block + "norm2.weight"], 1e-5), 4, 2,
                                 "chosen", swiglu)
        x, extra = x + y, extra + auxiliary(logits, taken, 0.3, 0.1)
    logits = nn.rms_norm(x, (8,), p["norm.weight"], 1e-5) @ p["head.weight"].T
    expected = nn.cross_entropy(logits.flatten(0, 1), torch.tensor(ids[:, 1:]).flatten()) + extra
    loss, saved = ours.loss((ids[:, :-1], ids[:, 1:]))
    close(loss, expected, 1e-12)
    ours.loss_backward(saved)
    expected.backward()
    largest = max(float(t.grad.abs().max()) for t in p.values())
    for name, parameter in ours.named_parameters():
        np.testing.assert_allclose(parameter.grad, p[name].grad.numpy(), rtol=1e-11,
                                   atol=1e-12 * largest, err_msg=name)


def mixtral(ours):
    """Our weights in Mixtral's block."""
    modeling = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    config = modeling.MixtralConfig(hidden_size=8, intermediate_size=5, num_local_experts=4,
                                    num_experts_per_tok=2)
    theirs = modeling.MixtralSparseMoeBlock(config).double()
    if not hasattr(theirs.experts, "gate_up_proj"):
        pytest.skip("this version of transformers keeps the experts' weights in another way")
    theirs.gate.weight.data = torch.tensor(ours.router.weight.data.T.copy())
    theirs.experts.gate_up_proj.data = torch.tensor(np.stack(
        [np.concatenate([expert.gate.weight.data, expert.hidden.weight.data], axis=1).T
         for expert in ours.experts]))
    theirs.experts.down_proj.data = torch.tensor(np.stack([expert.output.weight.data.T
                                                           for expert in ours.experts]))
    return theirs


def test_the_layer_equals_the_block_of_mixtral(rng):
    """Its router runs in float32: its weights are compared to that precision, ours are used."""
    ours = random_layer(MixtureOfExperts(8, 5, 4, 2, "silu", rng, gated=True, bias=False,
                                         dtype=float), rng)
    theirs, x = mixtral(ours), rng.standard_normal((2, 6, 8))
    y, (logits, chosen, *_) = ours.forward(x)
    weights, _ = F.top_k_gates(logits, chosen)
    _, their_weights, their_chosen = theirs.gate(torch.tensor(x))
    assert np.array_equal(chosen, their_chosen.numpy())
    np.testing.assert_allclose(weights, their_weights.detach().numpy(), rtol=1e-5)
    close(y.reshape(12, 8), theirs.experts(torch.tensor(x).reshape(12, 8), their_chosen,
                                           torch.tensor(weights)), 1e-12)
    np.testing.assert_allclose(y, theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
