"""Modules of PyTorch against our layers, each right and with a planted error."""

import numpy as np
import pytest

from numformer.functional import CAUSAL, AttentionPattern
from numformer.layers import (
    GRU, LSTM, Bidirectional, Convolution2D, FeedForward, LayerNorm, Linear, MixtureOfExperts,
    MultiHeadAttention, ResidualBranch, SelfAttentionBranch, TransformerBlock)
from numformer.models import Decoder, DecoderConfig
from numformer.parameter import Layer
from numformer.testing import assert_layer_matches

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 8))


def said(*arguments, **options):
    with pytest.raises(AssertionError) as raised:
        assert_layer_matches(*arguments, **options)
    return str(raised.value)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def llama():
    """A block of transformers, how it is called, and ours."""
    modeling = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = modeling.LlamaConfig(
        hidden_size=16, intermediate_size=24, num_attention_heads=4, num_key_value_heads=2,
        rms_norm_eps=1e-5, attn_implementation="sdpa")
    rotary = modeling.LlamaRotaryEmbedding(config)
    ours = Decoder(DecoderConfig(
        vocab_size=11, context_length=16, n_layers=1, n_heads=4, n_kv_heads=2, d_model=16,
        d_hidden=24, norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False), None)

    def call(block, x):
        return block(x, position_embeddings=rotary(x, torch.arange(x.shape[1])[None]))
    return modeling.LlamaDecoderLayer(config, 0), call, ours.blocks[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_llama_block(llama, dtype, capsys):
    block, call, ours = llama
    x = RNG.standard_normal((2, 5, 16))
    block = block.to(getattr(torch, dtype))
    assert_layer_matches(block, ours, [x], call=call, options={"pattern": CAUSAL})
    assert ("  mlp.up_proj.weight = feedforward.hidden.weight transposed\n"
            in capsys.readouterr().out)
    block.mlp.act_fn = torch.nn.ReLU()
    assert "after mlp.up_proj, which is right, and before mlp.down_proj" in said(
        block, ours, [x], call=call, options={"pattern": CAUSAL})


def test_a_llama_block_in_float64_computes_its_norms_in_float32(llama):
    block, call, ours = llama
    x = RNG.standard_normal((2, 5, 16))
    options = dict(call=call, options={"pattern": CAUSAL})
    assert "something in it computes in float32" in said(block.double(), ours, [x], **options)
    assert_layer_matches(block.double(), ours, [x], rtol=1e-5, **options)
    assert "so the error is after self_attn.v_proj" in said(block, ours, [x], call=call)


@pytest.mark.parametrize("theirs, ours", [
    (torch.nn.LSTM, LSTM), (torch.nn.GRU, GRU), (torch.nn.LSTM, "both")])
def test_recurrent_modules(theirs, ours):
    x = RNG.standard_normal((2, 5, 3))
    module = theirs(3, 4, batch_first=True, bidirectional=ours == "both").double()
    layer = ours(3, 4, RNG) if ours != "both" else Bidirectional(
        LSTM(3, 4, RNG), LSTM(3, 4, RNG, reverse=True))
    assert_layer_matches(module, layer, [x])
    assert "y is wrong in" in said(module, layer, [x], call=lambda m, x: m(x.flip(1)))


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_attention(bias):
    module = torch.nn.MultiheadAttention(8, 2, bias=bias, batch_first=True).double()
    ours = MultiHeadAttention(8, 2, RNG, bias=bias)
    assert_layer_matches(module, ours, [X], call=lambda m, x: m(x, x, x)[0])
    text = said(module, MultiHeadAttention(8, 4, RNG, bias=bias), [X],
                call=lambda m, x: m(x, x, x)[0])
    assert text.startswith("MultiheadAttention against MultiHeadAttention: y is wrong in 80 of 80")


def test_cross_attention_has_a_gradient_for_each_input():
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True, kdim=6, vdim=6).double()
    ours, context = MultiHeadAttention(8, 2, RNG, d_context=6), RNG.standard_normal((2, 4, 6))
    assert_layer_matches(module, ours, [X, context], call=lambda m, x, c: m(x, c, c)[0])
    assert "the gradient of input 1 is wrong" in said(
        module, ours, [X, context], call=lambda m, x, c: m(x, c, c.detach())[0])


@pytest.mark.parametrize("order", ["pre", "post"])
def test_an_encoder_layer(order):
    module = torch.nn.TransformerEncoderLayer(
        8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=order == "pre").double()
    ours = TransformerBlock(
        attention=SelfAttentionBranch(LayerNorm(8), MultiHeadAttention(8, 2, RNG), order),
        feedforward=ResidualBranch(LayerNorm(8), FeedForward(8, 16, "gelu", RNG), order))
    assert_layer_matches(module, ours, [X])
    module.norm_first = order != "pre"
    assert "The first sublayer that differs is" in said(module, ours, [X])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_an_encoder_layer_in_half_precision(dtype, order):
    """The gradient of the keys' bias is a sum that cancels to 0; units of ReLU are at kinks."""
    ours = TransformerBlock(
        attention=SelfAttentionBranch(LayerNorm(8), MultiHeadAttention(8, 2, RNG), order),
        feedforward=ResidualBranch(LayerNorm(8), FeedForward(8, 16, "relu", RNG), order))
    for seed in range(3):
        torch.manual_seed(seed)
        module = torch.nn.TransformerEncoderLayer(
            8, 2, 16, 0.0, batch_first=True, norm_first=order == "pre").to(getattr(torch, dtype))
        assert_layer_matches(module, ours, [X])
    hook = module.self_attn.in_proj_bias.register_hook(
        lambda gradient: torch.where(torch.arange(24) // 8 == 1, gradient + 0.3, gradient))
    assert "the gradient of self_attn.in_proj_bias[8:16] is wrong in 8 of 8" in said(
        module, ours, [X])
    hook.remove()
    module.linear1.register_full_backward_hook(lambda part, dx, dy: (-dx[0],))
    assert "the gradient of the input is wrong" in said(module, ours, [X])


def test_a_whole_model_of_ids():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = torch.nn.Embedding(11, 8), torch.nn.Embedding(6, 8)
            self.h = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(
                8, 2, 32, 0.0, torch.nn.GELU(approximate="tanh"), batch_first=True,
                norm_first=True) for _ in range(2))
            self.ln_f = torch.nn.LayerNorm(8)

        def forward(self, ids):
            T = ids.shape[1]
            x = self.wte(ids) + self.wpe.weight[:T]
            mask = torch.nn.Transformer.generate_square_subsequent_mask(T, dtype=x.dtype)
            for block in self.h:
                x = block(x, src_mask=mask)
            return self.ln_f(x) @ self.wte.weight.T
    ours = Decoder(DecoderConfig(vocab_size=11, context_length=6, n_layers=2, n_heads=2,
                                 d_model=8), RNG)
    module, ids = Model().double(), np.array([[1, 2, 3, 4], [10, 0, 1, 1]])
    assert_layer_matches(module, ours, [ids])
    module.h[1].linear1.register_forward_hook(lambda part, inputs, y: y.clamp(max=0.5))
    assert "The first sublayer that differs is h.1.linear1 (ours: blocks.1.feedforward.hidden)" in \
        said(module, ours, [ids])


def test_a_convolution():
    images = RNG.standard_normal((2, 6, 6, 3))
    assert_layer_matches(torch.nn.Conv2d(3, 4, 3).double(), Convolution2D(3, 4, 3, RNG), [images],
                         call=lambda m, x: m(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


def test_a_gradient_that_is_missing_or_wrong_is_placed():
    class Detached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.output = torch.nn.Linear(8, 12), torch.nn.Linear(12, 8)

        def forward(self, x):
            h = self.hidden(x)
            return self.output(h.detach() + 0.5 * (h - h.detach()))

    class TwoMaps(Layer):
        def __init__(self):
            self.hidden, self.output = Linear(8, 12, RNG), Linear(12, 8, RNG)

        def forward(self, x):
            h, saved_hidden = self.hidden.forward(x)
            y, saved_output = self.output.forward(h)
            return y, (saved_hidden, saved_output)

        def backward(self, dy, saved):
            saved_hidden, saved_output = saved
            return self.hidden.backward(self.output.backward(dy, saved_output), saved_hidden)

    text = said(Detached().double(), TwoMaps(), [X])
    assert "the gradient of the input is wrong in" in text and "Right: y" in text
    assert ("Backward from y, the gradient of the output of hidden (ours: hidden) is the first "
            "that differs; that of output is right.") in text


def test_the_module_stays_as_it_was():
    module = torch.nn.Linear(8, 4)
    module.bias.requires_grad_(False)
    before = {name: x.clone() for name, x in module.state_dict().items()}
    assert_layer_matches(module, Linear(8, 4, RNG), [X])
    assert all(torch.equal(before[name], x) for name, x in module.state_dict().items())
    assert module.weight.grad is None and not module.bias.requires_grad
    assert not module._forward_hooks


def test_a_joint_weight_in_another_order_is_the_likely_cause():
    class Attention(torch.nn.Module):
        def __init__(self, order):
            super().__init__()
            self.c_attn, self.c_proj = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
            self.order = order

        def forward(self, x):
            parts = [z.view(*x.shape[:2], 2, 4).transpose(1, 2)
                     for z in self.c_attn(x).split(8, -1)]
            q, k, v = (parts[self.order.index(name)] for name in "qkv")
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            return self.c_proj(o.transpose(1, 2).reshape(x.shape))
    ours = MultiHeadAttention(8, 2, RNG)
    assert_layer_matches(Attention("qkv").double(), ours, [X])
    text = said(Attention("kqv").double(), ours, [X])
    assert "Likely cause: c_attn.weight holds key.weight, query.weight, value.weight in" in text
    names = {f"c_attn.{kind}": [f"{name}.{kind}" for name in ("key", "query", "value")]
             for kind in ("weight", "bias")}
    assert_layer_matches(Attention("kqv").double(), ours, [X], names=names)


def test_stacked_experts_of_transformers():
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "MixtralConfig"):
        pytest.skip("no Mixtral here")
    config = transformers.MixtralConfig(
        hidden_size=16, intermediate_size=24, num_attention_heads=4, num_key_value_heads=2,
        num_hidden_layers=1, vocab_size=11, num_local_experts=3, num_experts_per_tok=2,
        rms_norm_eps=1e-5, sliding_window=None, rope_theta=1e6, attn_implementation="sdpa")
    module, ids = transformers.MixtralForCausalLM(config), np.array([[1, 2, 3, 4]])

    def ours(base):
        return Decoder(DecoderConfig(
            vocab_size=11, context_length=16, n_layers=1, n_heads=4, n_kv_heads=2, d_model=16,
            d_hidden=24, norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False,
            tied=False, n_experts=3, rotary_base=base), None)
    assert_layer_matches(module, ours(1e6), [ids], call=lambda m, ids: m(ids).logits)
    assert "Likely cause: in the module, base is 1e+06, and 10000 here." in said(
        module, ours(1e4), [ids], call=lambda m, ids: m(ids).logits, rtol=1e-6)


def encoder(order="pre", activation="relu", n_heads=2):
    return TransformerBlock(
        attention=SelfAttentionBranch(LayerNorm(8), MultiHeadAttention(8, n_heads, RNG), order),
        feedforward=ResidualBranch(LayerNorm(8), FeedForward(8, 16, activation, RNG), order))


@pytest.mark.parametrize("theirs, ours, options, words", [
    ({}, {}, {}, ["cause: in the module, order is 'post', and 'pre' here"]),
    ({"norm_first": True}, {"order": "post"}, {},
     ["cause: in the module, order is 'pre', and 'post' here"]),
    ({"norm_first": True, "batch_first": False}, {}, {},
     ["cause: the module takes (T, B, C), and (B, T, C) came in: give batch_first=True"]),
    ({"norm_first": True, "activation": "gelu"}, {"n_heads": 4}, {},
     ["causes, two: ", "activation is 'gelu', and 'relu' here", "n_heads is 2, and 4 here"]),
    ({"activation": "gelu"}, {}, {}, ["causes, two: ", "order is 'post'", "activation is 'gelu'"]),
    ({"norm_first": True, "activation": "gelu"}, {}, {"pattern": CAUSAL},
     ["causes, two: ", "attention is not causal", "activation is 'gelu'"])])
def test_the_setting_or_two_that_differ_are_the_likely_cause(theirs, ours, options, words):
    module = torch.nn.TransformerEncoderLayer(
        8, 2, 16, **{"dropout": 0.0, "batch_first": True, **theirs})
    text = said(module, encoder(**ours), [X], options=options)
    assert all(part in text for part in ["Likely ", *words]), text


def test_an_inverted_mask_is_the_likely_cause():
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours = MultiHeadAttention(8, 2, RNG)
    padding = torch.arange(5)[None] < torch.tensor([3, 5])[:, None]
    for pattern, given in (
            (AttentionPattern(lengths=np.array([3, 5])), {"key_padding_mask": padding}),
            (CAUSAL, {"attn_mask": torch.ones(5, 5).tril().bool()})):
        assert "Likely cause: the module's mask is inverted" in said(
            module, ours, [X], options={"pattern": pattern},
            call=lambda m, x, given=given: m(x, x, x, **given))


def test_heads_that_are_merged_without_exchanging_axes():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.output = (
                torch.nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            q, k, v = (part(x).reshape(2, 5, 2, 4).transpose(1, 2)
                       for part in (self.query, self.key, self.value))
            heads = (q @ k.mT / 2).softmax(-1) @ v
            return self.output(heads.reshape(2, 5, 8))
    assert "Likely cause: the module merges (B, H, T, D) to (B, T, H D) by reshape alone" in said(
        Attention(), MultiHeadAttention(8, 2, RNG), [X])


class Experts(torch.nn.Module):
    """A mixture whose experts see all tokens; the gates are of the chosen ones, times a factor."""

    def __init__(self, k=2, over_all=False, factor=1.0):
        super().__init__()
        self.k, self.over_all, self.factor = k, over_all, factor
        self.router = torch.nn.Linear(8, 3, bias=False)
        self.experts = torch.nn.ModuleList(torch.nn.Sequential(
            torch.nn.Linear(8, 12), torch.nn.GELU(), torch.nn.Linear(12, 8)) for _ in range(3))

    def forward(self, x):
        logits = self.router(x)
        weights, chosen = logits.topk(self.k, -1)
        weights = weights.softmax(-1)
        if self.over_all:
            weights = logits.softmax(-1).gather(-1, chosen)
        return sum((self.factor * weights * (chosen == e)).sum(-1, keepdim=True) * expert(x)
                   for e, expert in enumerate(self.experts))


def test_names_are_not_blamed_where_a_known_module_says_the_order_of_axes(capsys):
    text = said(Experts(factor=1.5), MixtureOfExperts(8, 12, 3, 2, "gelu", RNG), [X])
    assert "y is wrong" in text and "Names did not tell" not in text
    assert "experts.2.2.weight = experts.2.output.weight transposed\n" in capsys.readouterr().out
    assert ("All sublayers that could be compared are right, to experts.0, the last: the error is "
            "after it") in text


@pytest.mark.parametrize("module, words", [
    (lambda: Experts(k=1), "in the module, k is 1, and 2 here"),
    (lambda: Experts(over_all=True), "in the module, gates_over is 'all', and 'chosen' here")])
def test_how_experts_are_chosen_and_weighted_is_the_likely_cause(module, words):
    text = said(module(), MixtureOfExperts(8, 12, 3, 2, "gelu", RNG), [X])
    assert f"Likely cause: {words}." in text


def test_no_sublayer_to_compare_is_said():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.output = torch.nn.Linear(8, 8)

        def forward(self, x):
            y = self.output(x)
            return y + (y * torch.arange(8)).detach()
    text = said(Scaled(), Linear(8, 8, RNG), [X])
    assert ("No sublayer could be compared: none has the weights and as many vectors as one of "
            "ours. Right: the gradient of the input, the gradient of output.weight") in text
