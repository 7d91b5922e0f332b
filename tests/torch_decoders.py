"""Published decoders of Transformers with our weights: what is which, and gradients compared."""

import contextlib

import numpy as np
import pytest

from numformer.models import Decoder, DecoderConfig
from torch_copies import close, random_layer, torch

transformers = pytest.importorskip("transformers")
SIZES = dict(vocab_size=23, context_length=64, n_layers=3, n_heads=4, d_model=16, d_hidden=10)
V, T = SIZES["vocab_size"], 13


@contextlib.contextmanager
def in_double():
    """They compute angles, norms and softmax in float32 whatever the weights are."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("float", "float32"):
            patch.setattr(torch, name, torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield


def llama_options(**options):
    """The options that decoders of LLaMA's form share, and those of one family."""
    return DecoderConfig(**{**SIZES, **dict(
        norm="rms_norm", feedforward="swiglu", positions="rotary", bias=False, tied=False,
        epsilon=1e-6, dtype="float64", n_kv_heads=2), **options})


def theirs_of(family, config, **options):
    """The published module of a family, in float64, with the sizes of our config."""
    c = config
    sizes = dict(
        vocab_size=c.vocab_size, max_position_embeddings=c.context_length, hidden_size=c.d_model,
        num_hidden_layers=c.n_layers, num_attention_heads=c.n_heads,
        intermediate_size=c.hidden_width, tie_word_embeddings=c.tied, pad_token_id=None,
        bos_token_id=None, eos_token_id=None, attn_implementation="sdpa")
    its_config = getattr(transformers, f"{family}Config")(**{**sizes, **options})
    return getattr(transformers, f"{family}ForCausalLM")(its_config).double()


def llama_pairs(ours, theirs):
    """(our parameter, theirs, whether theirs is transposed) of decoders of LLaMA's form."""
    body = theirs.model
    yield ours.embedding.weight, body.embed_tokens.weight, False
    for block, layer in zip(ours.blocks, body.layers, strict=True):
        a, f, its = block.attention, block.feedforward, layer.self_attn
        yield from _linear(a.query, its.q_proj)
        yield from _linear(a.key, its.k_proj)
        yield from _linear(a.value, its.v_proj)
        yield from _linear(a.output, its.o_proj)
        yield from _linear(f.gate, layer.mlp.gate_proj)
        yield from _linear(f.hidden, layer.mlp.up_proj)
        yield from _linear(f.output, layer.mlp.down_proj)
        yield block.norm1.weight, layer.input_layernorm.weight, False
        yield block.norm2.weight, layer.post_attention_layernorm.weight, False
        if hasattr(its, "q_norm"):
            yield a.query_norm.weight, its.q_norm.weight, False
            yield a.key_norm.weight, its.k_norm.weight, False
    yield ours.norm.weight, body.norm.weight, False
    if not ours.config.tied:
        yield ours.head.weight, theirs.lm_head.weight, False
    if ours.head.bias is not None:
        yield ours.head.bias, theirs.lm_head.bias, False


def neox_pairs(ours, theirs):
    """Of GPT-NeoX: its queries, keys and values are one matrix, head by head."""
    body, D = theirs.gpt_neox, ours.config.head_width
    yield ours.embedding.weight, body.embed_in.weight, False
    for block, layer in zip(ours.blocks, body.layers, strict=True):
        a, f = block.attention, block.feedforward
        joint = layer.attention.query_key_value
        yield [part.weight for part in (a.query, a.key, a.value)], joint.weight, ("heads", D)
        yield [part.bias for part in (a.query, a.key, a.value)], joint.bias, ("heads", D)
        yield from _linear(a.output, layer.attention.dense)
        yield from _linear(f.hidden, layer.mlp.dense_h_to_4h)
        yield from _linear(f.output, layer.mlp.dense_4h_to_h)
        yield from _norm(block.norm1, layer.input_layernorm)
        yield from _norm(block.norm2, layer.post_attention_layernorm)
    yield from _norm(ours.norm, body.final_layer_norm)
    yield ours.head.weight, theirs.lm_head.weight, False


def as_theirs(arrays, form):
    """Our array, or several that are one of theirs, in the layout of theirs."""
    if form is False or form is True:
        return arrays.T if form else arrays
    _, D = form
    by_head = [array.T.reshape(-1, D, *array.T.shape[1:]) for array in arrays]    # (H, D, ...)
    joint = np.concatenate(by_head, axis=1)
    return joint.reshape(-1, *joint.shape[2:])


def _norm(ours, theirs):
    yield ours.weight, theirs.weight, False
    yield ours.bias, theirs.bias, False


def _linear(ours, theirs):
    yield ours.weight, theirs.weight, True
    if ours.bias is not None:
        yield ours.bias, theirs.bias, False


def agree(config, make_theirs, pairs, rng):
    """Logits, loss, every gradient, and a greedy text by steps equal those of Transformers."""
    with in_double():
        ours, theirs = random_layer(Decoder(config, rng), rng), make_theirs(config)
        table = list(pairs(ours, theirs))
        for mine, other, form in table:
            data = as_theirs(datas(mine, "data"), form)
            assert other.shape == data.shape
            other.data = torch.tensor(data.copy())
        theirs.tie_weights()
        theirs.eval()
        size = sum(p.data.size for p in ours.parameters())
        assert sum(p.numel() for p in theirs.parameters()) == size, "every parameter, once"
        ids = rng.integers(0, V, (2, T))
        out = theirs(input_ids=torch.tensor(ids), use_cache=False)
        close(ours(ids), out.logits, 1e-10)
        targets = rng.integers(0, V, (2, T))
        expected = torch.nn.functional.cross_entropy(out.logits.reshape(-1, V),
                                                     torch.tensor(targets).reshape(-1))
        loss, saved = ours.loss((ids, targets))
        close(loss, expected, 1e-10)
        expected.backward()
        ours.loss_backward(saved)
        largest = max(float(other.grad.abs().max()) for _, other, _ in table)
        for mine, other, form in table:
            np.testing.assert_allclose(as_theirs(datas(mine, "grad"), form), other.grad.numpy(),
                                       rtol=1e-9, atol=1e-12 * largest)
        assert sum(other.numel() for _, other, _ in table) == size
        steps_agree(ours, theirs, ids)
    return ours


def datas(mine, name):
    return ([getattr(part, name) for part in mine] if isinstance(mine, list)
            else getattr(mine, name))


def steps_agree(ours, theirs, ids):
    """Tokens one by one with a cache, longer than any window of the tests."""
    text, cache = ids[:, :1], None
    for _ in range(T + 3):
        logits, cache = ours.step(text[:, -1:], cache)
        with torch.no_grad():
            expected = theirs(input_ids=torch.tensor(text), use_cache=False).logits[:, -1]
        close(logits[:, 0], expected, 1e-10)
        text = np.concatenate([text, logits[:, 0].argmax(-1)[:, None]], axis=1)
    padding = np.array([4, 0])                        # another cache: rows of other lengths at once
    text, cache = text[:, :T], None
    real = np.arange(T) >= padding[:, None]
    for part in (text[:, :T - 2], text[:, T - 2:T - 1], text[:, T - 1:]):
        logits, cache = ours.step(part, cache, padding if cache is None else None)
    positions = (np.cumsum(real, axis=1) - 1).clip(0)
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(text), attention_mask=torch.tensor(real.astype(int)),
            position_ids=torch.tensor(positions), use_cache=False).logits
    close(logits[:, -1], expected[:, -1], 1e-10)
