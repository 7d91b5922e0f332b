"""The architecture that is read from layers has all parameters, and the blocks of the papers."""

import numpy as np
import pytest

from numformer.analysis import architecture, capture, count
from numformer.description import Reader, Residual, Row, Stack, boxes_of
from numformer.layers import Identity, MultiHeadAttention
from numformer.models import (
    CONFIGS, CONVOLUTION_CONFIGS, KINDS, PUBLISHED, BertConfig, Decoder, DecoderConfig,
    NGramLanguageModelConfig)
from numformer.parameter import Layer
from numformer.verify.registry import MODELS

SMALL = dict(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=8)


def stacks_of(parts):
    return [part for part in parts if isinstance(part, Stack)]


@pytest.mark.parametrize("name", [
    "transformer-base", "t5-small", "t5-v1_1-small", "bart-base", "bert-base", "gpt1", "gpt2",
    "gpt3", "llama3-405b", "mixtral-8x7b", "palm-8b", "switch-base", "modernbert-base", "vit-base",
    "vit-huge", "clip-base-32", "swin-t", "lenet-5"])
def test_boxes_have_every_parameter_once(name):
    assert architecture(PUBLISHED[name]).parameters == count(PUBLISHED[name])["parameters"]


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_every_model_of_the_registry_has_a_diagram_with_shapes_equations_and_pages(case):
    model = case.layer()
    found, outputs = architecture(model), {}
    assert found.parameters == sum(each.data.size for each in model.parameters())
    with capture(model, Layer) as calls:
        model.loss((case.batch or next_pairs)(*case.ids), **case.options())
    for call in calls:
        if not isinstance(call.layer, Identity):                    # one for all models
            outputs.setdefault(call.name, []).append(np.shape(call.output))
    for box, times in found.boxes():
        assert box.gradient and box.page.endswith(".py") and times >= 1
        shapes = [shape for shape in outputs.get(box.path, []) if len(shape) == len(box.shape)]
        known = [k for k, size in enumerate(box.shape)
                 if type(found.sizes.get(size, size)) is int]
        if box.path and shapes:
            drawn = [found.sizes.get(box.shape[k], box.shape[k]) for k in known]
            assert drawn in [[shape[k] for k in known] for shape in shapes], box


def next_pairs(*ids):
    *sources, tokens = ids
    return (*sources, tokens[:, :-1], tokens[:, 1:])


def test_the_transformer_of_2017_has_six_blocks_of_two_and_three_branches():
    encoder, decoder = architecture(CONFIGS["transformer-base"]).columns
    (first,), (second,) = stacks_of(encoder.parts), stacks_of(decoder.parts)
    assert (first.repeat, second.repeat) == (6, 6)
    assert [box.name for box, _ in boxes_of(second.parts)] == [
        "Masked self-attention", "LayerNorm", "Cross-attention", "LayerNorm", "Feed-forward",
        "LayerNorm"]
    assert [isinstance(part, Residual) for part in second.parts] == [True, False] * 3
    assert [box.reads_memory for box, _ in boxes_of(second.parts)].index(True) == 2
    assert [box.name for box, _ in boxes_of(first.parts)][::2] == ["Self-attention", "Feed-forward"]
    head = decoder.parts[-1]
    assert (head.name, head.parameters, head.tied) == ("LM head", 0, True)
    assert head.shape == ("B", "T", "V")


def test_blocks_that_differ_are_in_stacks_of_their_own():
    config = BertConfig(**SMALL | dict(n_layers=4), norm_first=True, first_attention_norm=False)
    first, second = stacks_of(architecture(config).columns[0].parts)
    assert (first.repeat, second.repeat) == (1, 3)
    assert len(first.parts[0].parts) == 1 and len(second.parts[0].parts) == 2


def test_blocks_in_turns_are_one_stack_of_pairs():
    stack, = stacks_of(architecture(CONFIGS["switch-base"]).columns[0].parts)
    names = [box.name for box, _ in boxes_of(stack.parts)]
    assert stack.repeat == 6 and names.count("Self-attention") == 2
    assert {"Feed-forward", "Mixture of experts"} <= set(names)


def test_a_shared_position_bias_is_counted_once():
    stack, = stacks_of(architecture(CONFIGS["t5-small"]).columns[0].parts)
    assert [(box.name, box.parameters) for box in stack.shared] == [("Relative position bias", 256)]


def test_a_model_gives_what_its_config_gives():
    config = DecoderConfig(**SMALL, parallel_residual=True)
    found = architecture(Decoder(config, np.random.default_rng(0)))
    assert found == architecture(config)
    residual, = stacks_of(found.columns[0].parts)[0].parts
    row, = residual.parts
    assert isinstance(row, Row) and len(row.series) == 2


@pytest.mark.parametrize("name, number", [("llama3-8b", 32), ("t5-small", 7), ("palm-8b", 1),
                                          ("mixtral-8x7b", 2), ("swin-t", 4), ("bert-base", 12)])
def test_one_block_has_the_parameters_of_its_parts(name, number):
    found, model = architecture(PUBLISHED[name], number), whole(PUBLISHED[name])
    blocks = [layer for path, layer in model.named_layers()
              if path.rpartition(".")[0].endswith("blocks")]
    assert found.parameters == sum(each.data.size for each in blocks[number - 1].parameters())
    names = [box.name for box, _ in found.boxes()]
    assert {"Query projection", "Attention weights", "Output projection"} <= set(names)
    assert names.count("Rotary positions") == 2 * (name in ("llama3-8b", "palm-8b", "mixtral-8x7b"))
    assert "Router" in names or name != "mixtral-8x7b"


def whole(config):
    return next(kind for kind, its in KINDS.values() if type(config) is its)(config, rng=None)


def test_the_counts_of_n_grams_are_drawn_too():
    found = architecture(NGramLanguageModelConfig(vocab_size=5, context_length=4))
    assert [box.name for box, _ in found.boxes()][1] == "Counts of n-grams"


def test_options_of_attention_are_in_words():
    layer = MultiHeadAttention(8, 4, rng=None, n_kv_heads=2, query_key_norm=True)
    assert layer.describe().sizes == "4 heads of 2, 2 of keys and values, RMSNorm of q and k"


@pytest.mark.parametrize("model, options, error, message", [
    ("gpt2", {}, TypeError, "str is neither a model nor the config"),
    (MultiHeadAttention(8, 2, rng=None), {}, TypeError, "MultiHeadAttention has no diagram of its"),
    (CONFIGS["gpt2"], {"block": 13}, ValueError, r"block=13, but Decoder has 12 blocks; give 1"),
    (CONFIGS["gpt2"], {"block": 0}, ValueError, "block=0"),
    (CONVOLUTION_CONFIGS["lenet-5"], {"block": 1}, ValueError, "has no blocks; leave it out")])
def test_what_has_no_diagram_is_refused(model, options, error, message):
    with pytest.raises(error, match=message):
        architecture(model, **options)


def test_a_layer_without_a_description_says_which_method_is_missing():
    class Twice(Layer):
        def forward(self, x):
            return 2 * x, ()

    with pytest.raises(TypeError, match=r"Twice is in a diagram, but .*give it a method describe"):
        Reader(Twice()).box(("B", "C"), Twice())
