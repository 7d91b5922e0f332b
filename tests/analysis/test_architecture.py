"""The architecture that is read from layers has all parameters, and the blocks of the papers."""

import numpy as np
import pytest

from numformer.analysis import architecture, count
from numformer.analysis.structure.architecture import Stack
from numformer.models import (
    CONFIGS, VISION_CONFIGS, BertConfig, Decoder, DecoderConfig, RecurrentLanguageModelConfig)

SMALL = dict(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=8)


@pytest.mark.parametrize("name", [
    "transformer-base", "t5-small", "t5-v1_1-small", "bart-base", "bert-base", "gpt1", "gpt2",
    "gpt3", "llama3-405b", "mixtral-8x7b", "vit-base", "vit-huge"])
def test_boxes_have_every_parameter_once(name):
    config = (CONFIGS | VISION_CONFIGS)[name]
    assert architecture(config).parameters == count(config)["parameters"]


def test_the_transformer_of_2017_has_six_blocks_of_two_and_three_branches():
    encoder, decoder = architecture(CONFIGS["transformer-base"]).columns
    (first,), (second,) = ([part for part in column.parts if isinstance(part, Stack)]
                           for column in (encoder, decoder))
    assert (first.repeat, second.repeat) == (6, 6)
    names = [[box.name for box in branch.boxes + branch.after_sum] for branch in second.branches]
    assert names == [
        ["Masked self-attention", "LayerNorm"], ["Cross-attention", "LayerNorm"],
        ["Feed-forward", "LayerNorm"]]
    assert [branch.reads_memory for branch in second.branches] == [False, True, False]
    assert [branch.boxes[0].name for branch in first.branches] == ["Self-attention", "Feed-forward"]
    assert decoder.heads[0][0].parameters == 0, "tied: it is the embedding's matrix"


def test_blocks_that_differ_are_in_stacks_of_their_own():
    config = BertConfig(**SMALL | dict(n_layers=4), norm_first=True, first_attention_norm=False)
    stacks = [part for part in architecture(config).columns[0].parts if isinstance(part, Stack)]
    assert [stack.repeat for stack in stacks] == [1, 3]
    assert len(stacks[0].branches[0].boxes) == 1 and len(stacks[1].branches[0].boxes) == 2


def test_a_shared_position_bias_is_counted_once():
    encoder, _ = architecture(CONFIGS["t5-small"]).columns
    stack, = (part for part in encoder.parts if isinstance(part, Stack))
    assert [(box.name, box.parameters) for box in stack.shared] == [("Relative position bias", 256)]


def test_a_model_gives_what_its_config_gives():
    config = DecoderConfig(**SMALL, parallel_residual=True)
    found = architecture(Decoder(config, np.random.default_rng(0)))
    assert found == architecture(config) and found.columns[0].parts[2].parallel


@pytest.mark.parametrize("model, message", [
    (RecurrentLanguageModelConfig(vocab_size=5, context_length=4, n_layers=1, d_model=4),
     "RecurrentLanguageModel has no diagram; give a model, or the config, of Decoder"),
    ("gpt2", "str is neither a model nor the config")])
def test_another_model_is_refused(model, message):
    with pytest.raises(TypeError, match=message):
        architecture(model)
