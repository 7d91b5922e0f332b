"""The decoder in idiomatic PyTorch, for `numformer bench train` and `numformer bench generate`."""

from functools import lru_cache

import numpy as np

from numformer.benchmarks.cases import check_gpt2


@lru_cache(maxsize=1)
def modules():
    """The module class, made on first use, because PyTorch may not be installed."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        """A pre-norm block with one product for queries, keys and values."""

        def __init__(self, c):
            super().__init__()
            self.n_heads, C = c.n_heads, c.d_model
            self.norm1, self.norm2 = nn.LayerNorm(C, c.epsilon,
                                                  bias=c.bias), nn.LayerNorm(
                                                      C, c.epsilon, bias=c.bias)
            self.qkv, self.output = nn.Linear(C, 3 * C, bias=c.bias), nn.Linear(C, C, bias=c.bias)
            self.up, self.down = nn.Linear(C, c.hidden_width,
                                           bias=c.bias), nn.Linear(c.hidden_width, C, bias=c.bias)
            self.rate = c.dropout

        def forward(self, x, cache=None, position=0):
            B, T, C = x.shape
            q, k, v = (z.view(B, T, self.n_heads, -1).transpose(1, 2)
                       for z in self.qkv(self.norm1(x)).split(C, dim=2))
            if cache is not None:                                     # preallocated
                cache[0][:, :, position:position + T], cache[1][:, :, position:position + T] = k, v
                k, v = cache[0][:, :, :position + T], cache[1][:, :, :position + T]
            rate = self.rate if self.training else 0.0
            a = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None or position == 0,
                                               dropout_p=rate)
            x = x + F.dropout(self.output(a.transpose(1, 2).reshape(B, T, C)), rate)
            return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")),
                                 rate)

    class TorchDecoder(nn.Module):
        """GPT-2: learned positions, pre-norm LayerNorm, tanh GELU, tied head."""

        def __init__(self, c):
            super().__init__()
            self.embedding, self.positions = nn.Embedding(c.vocab_size,
                                                          c.d_model), nn.Embedding(
                                                              c.context_length, c.d_model)
            self.blocks = nn.ModuleList(Block(c) for _ in range(c.n_layers))
            self.norm = nn.LayerNorm(c.d_model, c.epsilon, bias=c.bias)

        def forward(self, ids, caches=None, position=0):
            x = self.embedding(ids) + self.positions.weight[position:position + ids.shape[1]]
            for n, block in enumerate(self.blocks):
                x = block(x, None if caches is None else caches[n], position)
            return F.linear(self.norm(x), self.embedding.weight)

        def loss(self, ids, targets):
            return F.cross_entropy(self(ids).flatten(0, 1), targets.flatten())

        def new_caches(self, batch_size, length):
            shape = (2, batch_size, self.blocks[0].n_heads, length,
                     self.norm.weight.numel() // self.blocks[0].n_heads)
            return [torch.zeros(shape) for _ in self.blocks]

    return TorchDecoder


def torch_decoder(model):
    """A PyTorch module with the weights of a `Decoder` with GPT-2's options.

    Raises
    ------
    ValueError
        If the decoder has other options.
    """
    import torch

    check_gpt2("torch_decoder", model)
    c = model.config
    module = modules()(c)
    ours = model.state_dict()
    state = {"embedding.weight": ours["embedding.weight"],
             "positions.weight": ours["positions.weight"], **_norm(ours, "norm", "norm")}
    for n in range(c.n_layers):
        mine, theirs = f"blocks.{n}.", f"blocks.{n}."
        state.update({**_norm(ours, mine + "norm1", theirs + "norm1"),
                      **_norm(ours, mine + "norm2", theirs + "norm2")})
        for part in ("weight", "bias") if c.bias else ("weight",):
            qkv = [ours[f"{mine}attention.{name}.{part}"] for name in ("query", "key", "value")]
            state[f"{theirs}qkv.{part}"] = np.concatenate(qkv, axis=-1).T
            for name, other in (("attention.output", "output"), ("feedforward.hidden", "up"),
                                ("feedforward.output", "down")):
                state[f"{theirs}{other}.{part}"] = ours[f"{mine}{name}.{part}"].T
    module.load_state_dict({name: torch.tensor(np.ascontiguousarray(array))
                            for name, array in state.items()})
    return module


def _norm(ours, mine, theirs):
    """The state of a norm: PyTorch calls gamma weight, and beta bias."""
    parts = (("weight", "weight"), ("bias", "bias"))
    return {f"{theirs}.{name}": ours[f"{mine}.{part}"] for part, name in parts
            if f"{mine}.{part}" in ours}
