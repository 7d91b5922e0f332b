"""The second witness for language models that carry a state: PyTorch's functions over the same
weights, and its gradients.
"""

import numpy as np
import pytest

from numformer.analysis import gradient_reach
from numformer.models import (
    ConvolutionLanguageModel, ConvolutionLanguageModelConfig, RecurrentLanguageModel,
    RecurrentLanguageModelConfig)
from numformer.models.recurrent.language_model import CELLS

torch = pytest.importorskip("torch")
from torch_copies import close, random_layer  # noqa: E402  (needs PyTorch)
from torch_recurrent import THEIRS, copy_weights, gradients_agree  # noqa: E402

SIZES = dict(vocab_size=9, context_length=8, n_layers=2, d_model=6, dtype="float64")


def data(rng):
    ids = rng.integers(0, 9, (3, 9))
    return ids[:, :-1], ids[:, 1:]


def their_loss(logits, targets):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, 9),
                                             torch.tensor(targets).reshape(-1))


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent(cell, rng):
    config = RecurrentLanguageModelConfig(**SIZES, cell=cell)
    ours = random_layer(RecurrentLanguageModel(config, rng), rng)
    theirs = THEIRS[CELLS[cell]][0](6, 6, num_layers=2, batch_first=True, dtype=torch.float64)
    for n, layer in enumerate(ours.layers):
        copy_weights(layer, theirs, f"_l{n}")
    inputs, targets = data(rng)
    table = torch.tensor(ours.embedding.weight.data, requires_grad=True)
    logits = theirs(table[torch.tensor(inputs)])[0] @ table.T
    loss, saved = ours.loss((inputs, targets))
    close(ours(inputs), logits, 1e-12)
    their_loss(logits, targets).backward()
    close(loss, their_loss(logits, targets), 1e-12)
    ours.loss_backward(saved)
    close(ours.embedding.weight.grad, table.grad)                     # as table and as head
    for n, layer in enumerate(ours.layers):
        gradients_agree(layer, theirs, f"_l{n}")

    # and of one loss of each sequence alone, by every vector
    vectors = table.detach()[torch.tensor(inputs)].requires_grad_()
    logits = theirs(vectors)[0] @ table.T
    loss = torch.nn.functional.cross_entropy(logits[:, 4], torch.tensor(targets[:, 4]),
                                             reduction="sum")
    loss.backward()
    wanted = np.linalg.norm(vectors.grad.numpy(), axis=2)[:, 4::-1].mean(axis=0)
    reach = gradient_reach(ours, inputs, targets, n_positions=1)
    np.testing.assert_allclose(reach, wanted, rtol=1e-10)


def test_convolution(rng):
    config = ConvolutionLanguageModelConfig(**SIZES, tied=False)
    ours = random_layer(ConvolutionLanguageModel(config, rng), rng)
    inputs, targets = data(rng)
    leaves = {name: torch.tensor(parameter.data, requires_grad=True)
              for name, parameter in ours.named_parameters()}
    f, x = torch.nn.functional, leaves["embedding.weight"][torch.tensor(inputs)]
    for n, layer in enumerate(ours.layers):
        norm, kernel = f"layers.{n}.norm", f"layers.{n}.convolution"
        h = f.layer_norm(x, (6,), leaves[f"{norm}.weight"], leaves[f"{norm}.bias"], 1e-5)
        h = f.conv1d(f.pad(h.transpose(1, 2), (layer.reach, 0)),
                     leaves[f"{kernel}.weight"].permute(2, 1, 0), leaves[f"{kernel}.bias"],
                     dilation=2 ** n)
        x = x + f.glu(h, dim=1).transpose(1, 2)
    x = f.layer_norm(x, (6,), leaves["norm.weight"], leaves["norm.bias"], 1e-5)
    logits = x @ leaves["head.weight"].T
    loss, saved = ours.loss((inputs, targets))
    close(ours(inputs), logits, 1e-12)
    their_loss(logits, targets).backward()
    ours.loss_backward(saved)
    for name, parameter in ours.named_parameters():
        close(parameter.grad, leaves[name].grad)
