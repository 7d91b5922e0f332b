"""The second witness: the whole recurrent sequence-to-sequence model, written again in PyTorch and
differentiated by autograd.
"""

import numpy as np
import pytest

from numformer.models import Seq2Seq, Seq2SeqConfig

torch = pytest.importorskip("torch")

KINDS = ["additive", "dot", "general", "scaled_dot", "none"]
INPUTS, LENGTHS = np.array([[3, 4, 5, 6], [6, 3, 0, 0], [7, 7, 4, 0]]), np.array([4, 2, 3])
OUTPUTS = np.array([[1, 4, 8, 5], [1, 3, 3, 0], [1, 0, 0, 0]])
TARGETS = np.array([[4, 8, 5, 2], [3, 3, 2, -100], [2, -100, -100, -100]])


def gru_cell(weights, input_weight, x, h, F):
    """One time step, from the products with x to the new state; names of our parameters."""
    a = x @ input_weight + weights["bias"]
    p = h @ weights["recurrent"]
    r, z = torch.sigmoid(a[:, :2 * F] + p[:, :2 * F]).split(F, dim=1)
    n = torch.tanh(a[:, 2 * F:] + r * (p[:, 2 * F:] + weights["recurrent_bias"]))
    return z * h + (1 - z) * n


def gru_weights(leaves, prefix):
    return {"bias": leaves[f"{prefix}.input.bias"],
            "recurrent": leaves[f"{prefix}.recurrent_weight"],
            "recurrent_bias": leaves[f"{prefix}.recurrent_bias"]}


def read_one_way(leaves, prefix, x, length, reverse):
    """The states of a single sequence, each at its own position; x is (S, C)."""
    F = leaves[f"{prefix}.recurrent_weight"].shape[0]
    h, states = torch.zeros(1, F, dtype=torch.float64), [None] * length
    for j in reversed(range(length)) if reverse else range(length):
        h = gru_cell(gru_weights(leaves, prefix), leaves[f"{prefix}.input.weight"], x[j:j + 1], h,
                     F)
        states[j] = h
    return torch.cat(states)                                          # (length, F)


def scores(kind, leaves, s, h):
    """(length,) scores of one state (1, F) with annotations (length, F)."""
    name = "decoder.attention."
    if kind == "additive":
        q, k = s @ leaves[name + "query.weight"], h @ leaves[name + "key.weight"]
        return torch.tanh(q + k) @ leaves[name + "weight"]
    if kind == "general":
        return (s @ leaves[name + "weight"] @ h.T)[0]
    return (s @ h.T)[0] / (s.shape[1] ** 0.5 if kind == "scaled_dot" else 1)


def logits_of_one(kind, leaves, F, inputs, length, outputs):
    """The whole model on one example, without padding: (T, V)."""
    x = leaves["source.weight"][torch.tensor(inputs[:length])]
    front = read_one_way(leaves, "encoder.forward_layer", x, length, reverse=False)
    back = read_one_way(leaves, "encoder.backward_layer", x, length, reverse=True)
    h = torch.cat([front, back], dim=1)
    last = torch.cat([front[-1:], back[:1]], dim=1) if kind == "none" else back[:1]
    s, rows = torch.tanh(last @ leaves["first.weight"] + leaves["first.bias"]), []
    for token in outputs:
        e, seen = leaves["target.weight"][int(token)][None], []
        x_and_c, weight = e, leaves["decoder.input.weight"]
        if kind != "none":
            c = (torch.softmax(scores(kind, leaves, s, h), dim=0) @ h)[None]
            x_and_c, seen = torch.cat([e, c], dim=1), [c]
            weight = torch.cat([weight, leaves["decoder.context_weight"]])
        s = gru_cell(gru_weights(leaves, "decoder"), weight, x_and_c, s, F)
        row = torch.cat([s, *seen, e], dim=1)
        rows.append(row @ leaves["output.weight"] + leaves["output.bias"])
    return torch.cat(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_model(kind, rng):
    config = Seq2SeqConfig(vocab_size=9, d_model=3, d_hidden=6, attention=kind, dtype="float64")
    model = Seq2Seq(config, rng)
    model.label_smoothing = 0.1
    for parameter in model.parameters():
        parameter.data += 0.5 * rng.standard_normal(parameter.data.shape)
    leaves = {name: torch.tensor(array, requires_grad=True)
              for name, array in model.state_dict().items()}
    expected = torch.stack([logits_of_one(kind, leaves, 6, *example)
                            for example in zip(INPUTS, LENGTHS, OUTPUTS)])
    np.testing.assert_allclose(model(INPUTS, LENGTHS, OUTPUTS), expected.detach().numpy(),
                               rtol=1e-12, atol=1e-12)

    theirs = torch.nn.functional.cross_entropy(expected.reshape(-1, 9),
                                               torch.tensor(TARGETS.reshape(-1)),
                                               label_smoothing=0.1)
    theirs.backward()
    loss, saved = model.loss((INPUTS, LENGTHS, OUTPUTS, TARGETS))
    model.loss_backward(saved)
    assert abs(float(loss) - theirs.item()) <= 1e-12 * theirs.item()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad, leaves[name].grad.numpy(), rtol=1e-11,
                                   atol=1e-12, err_msg=name)
