"""The norms of queries and keys have the epsilon of the config, in every model that has them."""

import numpy as np
import pytest

from numformer import backend
from numformer.layers import MultiHeadAttention, RMSNorm, RotaryPositions
from numformer.layers.token_step import TokenStep
from numformer.models import KINDS, Decoder, DecoderConfig

SIZES = dict(n_layers=2, n_heads=2, d_model=8)
OWN = {"BertClassifier": dict(n_classes=3), "BertTokenClassifier": dict(n_classes=3),
       "CLIP": dict(image_size=4, patch_size=2, channels=1, d_embedding=3),
       "CLIPTextEncoder": dict(d_embedding=3), "DecoderClassifier": dict(n_classes=3),
       "Forecaster": dict(horizon=2), "PointCloudClassifier": dict(n_classes=3),
       "TinyBert": dict(n_classes=3),
       "VisionLanguageModel": dict(image_size=4, patch_size=2, channels=1),
       "VisionTransformer": dict(image_size=4, patch_size=2, channels=1, n_classes=3)}
TEXT = dict(vocab_size=7, context_length=8)
MODELS = [name for name, (_, config) in KINDS.items()
          if "query_key_norm" in config.__dataclass_fields__]


def config_of(name, **options):
    config = KINDS[name][1]
    known = config.__dataclass_fields__
    text = {option: value for option, value in TEXT.items() if option in known}
    return config(**SIZES, **text, **OWN.get(name, {}), query_key_norm=True, **options)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_its_epsilon_to_the_norms_of_heads(name):
    model = KINDS[name][0](config_of(name, epsilon=0.25), np.random.default_rng(0))
    found = [part for _, part in model.named_layers() if isinstance(part, MultiHeadAttention)]
    assert len(found) >= 2
    for attention in found:
        for norm in (attention.query_norm, attention.key_norm):
            assert type(norm) is RMSNorm and norm.epsilon == 0.25


def test_these_are_the_models_with_the_option():
    assert {"Bert", "BertClassifier", "BertSpanClassifier", "BertTokenClassifier", "CLIP",
            "CLIPTextEncoder", "Decoder", "DecoderClassifier", "EncoderDecoder", "Forecaster",
            "NGramDecoder", "PointCloudClassifier", "PolicyDecoder", "SentenceBert", "TinyBert",
            "VisionLanguageModel", "VisionTransformer"} == set(MODELS)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_compiled_heads_and_steps_have_that_epsilon(positions, rng):
    """The same logits by the layers of NumPy, by the kernels, and by the compiled step."""
    pytest.importorskip("numba")
    config = DecoderConfig(**SIZES, **TEXT, query_key_norm=True, epsilon=0.25, dtype="float64",
                           positions=positions)
    model, ids = Decoder(config, rng), rng.integers(0, 7, (2, 6))
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    by_kernels = model(ids)
    assert TokenStep.of(model.blocks, model.norm, model.head) is not None
    steps = model.step(ids)[0]
    with backend.using("numpy"):
        expected = model(ids)
    for found in (by_kernels, steps):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    for block in model.blocks:
        block.attention.query_norm.epsilon = block.attention.key_norm.epsilon = 1e-5
    assert np.abs(model(ids) - expected).max() > 1e-3


def test_attention_normalizes_with_its_epsilon(rng):
    """By equation 4 of RMSNorm with the epsilon inside: scores of normalized heads."""
    layer = MultiHeadAttention(8, 2, rng, bias=False, query_key_norm=True, epsilon=0.5,
                               positions=RotaryPositions(4), dtype=np.float64)
    x = 0.1 * rng.standard_normal((1, 5, 8))
    q, k, _ = layer.queries_and_keys(layer.forward(x)[1])
    for heads, linear in ((q, layer.query), (k, layer.key)):
        plain = (x @ linear.weight.data).reshape(5, 2, 4).transpose(1, 0, 2)
        # a rotation keeps the norm of a vector
        norms = np.linalg.norm(plain / np.sqrt((plain ** 2).mean(-1, keepdims=True) + 0.5), axis=-1)
        np.testing.assert_allclose(np.linalg.norm(heads[0], axis=-1), norms, rtol=1e-12)


def test_an_epsilon_below_zero_is_refused(rng):
    with pytest.raises(ValueError, match="MultiHeadAttention: epsilon=-1"):
        MultiHeadAttention(8, 2, rng, epsilon=-1.0)
