"""The second witness for options of published decoders: Gemma 2 and 3, GPT-NeoX and BLOOM,
with the same weights.
"""

import numpy as np
import pytest

from numformer.models import Decoder, DecoderConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch_copies import close, random_layer  # noqa: E402  (needs PyTorch)
from torch_decoders import in_double  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SIZES = dict(vocab_size=23, context_length=32, n_layers=3, n_heads=4, d_model=16, d_hidden=20,
             dtype="float64", epsilon=1e-6)
V, T = 23, 11


def linear(ours, theirs):
    yield [ours.weight], theirs.weight, lambda weight: weight.T
    if theirs.bias is not None:
        yield [ours.bias], theirs.bias, lambda bias: bias


def plain(ours, theirs):
    yield [ours], theirs, lambda x: x


def norm(ours, theirs):
    yield from plain(ours.weight, theirs.weight)
    if hasattr(theirs, "bias"):
        yield from plain(ours.bias, theirs.bias)


def interleaved(attention, theirs):
    """One linear map of theirs, with query, key and value of a head next to each other."""
    H, maps = attention.n_heads, (attention.query, attention.key, attention.value)

    def joined(*weights):                             # (C, H D) each to (H 3 D, C)
        parts = [w.T.reshape(H, 1, -1, *w.T.shape[1:]) for w in weights]
        return np.concatenate(parts, axis=1).reshape(-1, *weights[0].T.shape[1:])

    yield [part.weight for part in maps], theirs.weight, joined
    yield [part.bias for part in maps], theirs.bias, joined


def gemma2(ours, theirs):
    yield from plain(ours.embedding.weight, theirs.model.embed_tokens.weight)
    for block, layer in zip(ours.blocks, theirs.model.layers, strict=True):
        a, f = block.attention, block.feedforward
        for mine, its in ((a.query, "q"), (a.key, "k"), (a.value, "v"), (a.output, "o")):
            yield from linear(mine, getattr(layer.self_attn, f"{its}_proj"))
        for mine, its in ((f.gate, "gate"), (f.hidden, "up"), (f.output, "down")):
            yield from linear(mine, getattr(layer.mlp, f"{its}_proj"))
        yield from norm(block.norm1, layer.input_layernorm)
        yield from norm(block.output_norm1, layer.post_attention_layernorm)
        yield from norm(block.norm2, layer.pre_feedforward_layernorm)
        yield from norm(block.output_norm2, layer.post_feedforward_layernorm)
        if hasattr(layer.self_attn, "q_norm"):                        # Gemma 3
            yield from norm(a.query_norm, layer.self_attn.q_norm)
            yield from norm(a.key_norm, layer.self_attn.k_norm)
    yield from norm(ours.norm, theirs.model.norm)


def gpt_neox(ours, theirs):
    body = theirs.gpt_neox
    yield from plain(ours.embedding.weight, body.embed_in.weight)
    for block, layer in zip(ours.blocks, body.layers, strict=True):
        yield from interleaved(block.attention, layer.attention.query_key_value)
        yield from linear(block.attention.output, layer.attention.dense)
        yield from linear(block.feedforward.hidden, layer.mlp.dense_h_to_4h)
        yield from linear(block.feedforward.output, layer.mlp.dense_4h_to_h)
        yield from norm(block.norm1, layer.input_layernorm)
        yield from norm(block.norm2, layer.post_attention_layernorm)
    yield from norm(ours.norm, body.final_layer_norm)
    yield from plain(ours.head.weight, theirs.get_output_embeddings().weight)


def bloom(ours, theirs):
    body = theirs.transformer
    yield from plain(ours.embedding.weight, body.word_embeddings.weight)
    yield from norm(ours.embedding_norm, body.word_embeddings_layernorm)
    for block, layer in zip(ours.blocks, body.h, strict=True):
        yield from interleaved(block.attention, layer.self_attention.query_key_value)
        yield from linear(block.attention.output, layer.self_attention.dense)
        yield from linear(block.feedforward.hidden, layer.mlp.dense_h_to_4h)
        yield from linear(block.feedforward.output, layer.mlp.dense_4h_to_h)
        yield from norm(block.norm1, layer.input_layernorm)
        yield from norm(block.norm2, layer.post_attention_layernorm)
        layer.mlp.gelu_impl = torch.nn.GELU(approximate="tanh")   # its own has sqrt(2 / pi) to 1e-8
    yield from norm(ours.norm, body.ln_f)


GEMMA = dict(norm="rms_norm", unit_offset=True, feedforward="geglu_tanh", positions="rotary",
             n_kv_heads=2, bias=False, embedding_scale=True, sandwich_norm=True,
             score_scale=7.0 ** -0.5, sliding_window=4)
ITS_GEMMA = dict(hidden_size=16, intermediate_size=20, num_attention_heads=4, num_key_value_heads=2,
                 query_pre_attn_scalar=7, rms_norm_eps=1e-6, max_position_embeddings=32,
                 sliding_window=4)
FAMILIES = {
    "Gemma2": (gemma2, dict(
        **GEMMA, layer_types="sliding_attention,full_attention", score_softcap=1.5,
        logit_softcap=2.0),
               dict(**ITS_GEMMA, num_hidden_layers=3, head_dim=4, attn_logit_softcapping=1.5,
                    final_logit_softcapping=2.0)),
    "Gemma3": (gemma2, dict(
        **GEMMA, n_layers=4,
        layer_types="sliding_attention,sliding_attention,full_attention", d_head=6,
        query_key_norm=True, rotary_base=1e6,
        rotary_scaling=dict(kind="linear", factor=8.0), local_rotary_base=1e4),
        dict(**ITS_GEMMA, num_hidden_layers=4, head_dim=6, layer_types=[
            f"{kind}_attention" for kind in ("sliding", "sliding", "full", "sliding")],
             rope_parameters=dict(
                 sliding_attention=dict(rope_type="default", rope_theta=1e4),
                 full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6)))),
    "GPTNeoX": (gpt_neox, dict(positions="rotary", parallel_residual=True, tied=False,
                               feedforward="gelu", d_rotary=2),
                dict(hidden_size=16, intermediate_size=20, num_hidden_layers=3,
                     num_attention_heads=4, layer_norm_eps=1e-6, rotary_pct=0.5,
                     rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                          partial_rotary_factor=0.5),
                     use_parallel_residual=True, max_position_embeddings=32)),
    "Bloom": (bloom, dict(positions="alibi", embedding_norm=True, d_hidden=64),
              dict(hidden_size=16, n_layer=3, n_head=4, layer_norm_epsilon=1e-6)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_gradients_and_steps_of_a_published_decoder(family, rng):
    pairs, options, its_options = FAMILIES[family]
    with in_double():
        ours = random_layer(Decoder(DecoderConfig(**{**SIZES, **options}), rng), rng)
        kind = "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config"
        config = getattr(transformers, kind)(
            vocab_size=V, pad_token_id=None, bos_token_id=None, eos_token_id=None,
            attn_implementation="eager", **its_options)
        theirs = getattr(transformers, f"{family}ForCausalLM")(config).double().eval()
        for mine, its, joined in pairs(ours, theirs):
            data = joined(*(part.data for part in mine))
            assert data.shape == tuple(its.shape)
            its.data = torch.tensor(data.copy())
        size = sum(parameter.data.size for parameter in ours.parameters())
        assert sum(p.numel() for p in theirs.parameters()) == size
        ids, targets = rng.integers(0, V, (2, 3, T))
        logits = theirs(input_ids=torch.tensor(ids), use_cache=False).logits
        close(ours(ids), logits, 1e-10)

        expected = torch.nn.functional.cross_entropy(logits.reshape(-1, V),
                                                     torch.tensor(targets).reshape(-1))
        loss, saved = ours.loss((ids, targets))
        close(loss, expected, 1e-10)
        expected.backward()
        ours.loss_backward(saved)
        largest = max(float(p.grad.abs().max()) for p in theirs.parameters())
        for mine, its, joined in pairs(ours, theirs):
            np.testing.assert_allclose(joined(*(part.grad for part in mine)), its.grad.numpy(),
                                       rtol=1e-9, atol=1e-12 * largest)

        cache, found = None, []
        for t in range(T):
            step, cache = ours.step(ids[:, t:t + 1], cache)
            found.append(step)
        close(np.concatenate(found, axis=1), logits, 1e-10)
