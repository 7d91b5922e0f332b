"""A module of PyTorch, with weights given by name and hooks on its submodules."""

from contextlib import contextmanager

import numpy as np

from numformer.other_libraries import as_array
from numformer.testing.layers.running import Call, Run, first_output, gradient_of, is_float


class TorchModule:
    """A `torch.nn.Module` that runs on weights given by name, and has its own afterwards.

    Parameters
    ----------
    module : torch.nn.Module
    call : callable, optional
        Takes the module and the inputs, tensors, and returns y or a tuple that begins with it.
    """

    transposes = True                                 # weights are (out, in) unless shapes differ

    def __init__(self, module, call=None):
        self.module, self.call = module, call or (lambda module, *inputs: module(*inputs))
        self.name = type(module).__name__
        self.tensors = {name: p for name, p in module.named_parameters() if p.is_floating_point()}
        self.weights = {name: np.array(as_array(p), np.float64)
                        for name, p in self.tensors.items()}
        first = next(iter(self.tensors.values()), None)
        self.dtype = str(first.dtype).removeprefix("torch.") if first is not None else "float64"
        self.owners = dict(module.named_modules())

    def axes(self, name):
        """The order of our axes in theirs, for a module that is known; None for another."""
        owner, _, key = name.rpartition(".")
        kinds = {kind.__name__ for kind in type(self.owners.get(owner)).__mro__}
        n = self.weights[name].ndim
        if n == 2 and kinds & {"Linear", "RNNBase", "MultiheadAttention", "Bilinear"}:
            return 1, 0
        if n == 2 and kinds & {"Conv1D", "Embedding", "EmbeddingBag"}:
            return 0, 1
        if n > 2 and "_ConvNd" in kinds:
            return *range(2, n), 1, 0
        return None

    def run(self, weights, inputs, dy):
        """The `Run` on these weights."""
        import torch

        with self._loaded(weights) as tensors, torch.enable_grad():
            theirs = [self._given(x) for x in inputs]
            calls, hooks = [], []
            for name, part in self.module.named_modules():
                if name:
                    hooks.append(part.register_forward_hook(_recorder(name, calls)))
            try:
                y = first_output(self.call(self.module, *theirs))
            finally:
                for hook in hooks:
                    hook.remove()
            gradient = gradient_of(as_array(y), dy)
            leaves = [*(x for x in theirs if x.requires_grad), *tensors.values()]
            found = torch.autograd.grad(
                y, leaves, torch.as_tensor(gradient).to(y.dtype).to(y.device),
                allow_unused=True) if y.requires_grad else [None] * len(leaves)
        found = [None if each is None else _array(each) for each in found]
        n = len(found) - len(tensors)
        of_inputs = iter(found[:n])
        return Run(_array(y), [next(of_inputs) if x.requires_grad else None for x in theirs],
                   dict(zip(tensors, found[n:])), calls)

    def _given(self, x):
        import torch

        x = torch.tensor(x)
        first = next(iter(self.tensors.values()), x)
        if x.is_floating_point():
            x = x.to(getattr(torch, self.dtype))
        return x.to(first.device).requires_grad_(x.is_floating_point())

    @contextmanager
    def _loaded(self, weights):
        """The parameters, with these weights meanwhile."""
        import torch

        before = {name: (p.detach().clone(), p.requires_grad) for name, p in self.tensors.items()}
        try:
            with torch.no_grad():
                for name, p in self.tensors.items():
                    p.copy_(torch.as_tensor(weights[name]))
            for p in self.tensors.values():
                p.requires_grad_(True)
            yield self.tensors
        finally:
            with torch.no_grad():
                for name, (data, trained) in before.items():
                    self.tensors[name].copy_(data)
                    self.tensors[name].requires_grad_(trained)


def _recorder(name, calls):
    """A hook that keeps what a submodule got and returned."""
    def hook(part, inputs, output):
        y = first_output(output)
        if not hasattr(y, "detach") or not y.is_floating_point():
            return
        call = Call(name, [_array(x) for x in inputs if hasattr(x, "detach")], _array(y))
        calls.append(call)
        if y.requires_grad:
            y.register_hook(lambda dy: setattr(call, "gradient", _array(dy)))
    return hook


def _array(x):
    x = np.array(as_array(x))
    return x.astype(np.float64) if is_float(x) else x
