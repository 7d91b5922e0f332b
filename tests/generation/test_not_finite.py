"""Logits that are not finite: all ways to decode, and to classify, raise the same error."""

import numpy as np
import pytest

from numformer.data import Batch
from numformer.finite import NotFinite, check_logits, predicted_classes
from numformer.generation import (
    beam_search, beam_search_prompts, choose_token, generate, generate_batch, greedy_search,
    pooled_beam_search)
from numformer.models import (
    DETR, BertClassifier, BertClassifierConfig, Decoder, DecoderConfig, DETRConfig, EncoderDecoder,
    EncoderDecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig, Seq2Seq,
    Seq2SeqConfig, best_spans)
from numformer.training import accuracy, mean_loss

SIZES = dict(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8)
PROMPTS, SOURCES = [np.array([4, 5]), np.array([6])], [[4, 5], [6]]
CONTINUED = {
    "generate": lambda model: list(generate(model, PROMPTS[0], 2, temperature=0)),
    "generate, sampled": lambda model: list(
        generate(model, PROMPTS[0], 2, np.random.default_rng(0), top_k=3)),
    "generate_batch": lambda model: list(generate_batch(model, PROMPTS, 2, temperature=0))}
PROMPTED = CONTINUED | {"beam_search_prompts": lambda model: beam_search_prompts(
    model, PROMPTS, end=2, beams=2, max_tokens=3)}
ANSWERED = {search.__name__: lambda model, search=search, options=options: search(
    model, SOURCES, 0, 1, 2, max_tokens=3, **options) for search, options in (
        (greedy_search, {}), (beam_search, dict(beams=2)), (pooled_beam_search, dict(beams=2)))}
MODELS = [
    (lambda rng: Decoder(DecoderConfig(**SIZES), rng), PROMPTED),
    (lambda rng: RecurrentLanguageModel(RecurrentLanguageModelConfig(
        vocab_size=9, context_length=8, n_layers=1, d_model=8), rng), CONTINUED),
    (lambda rng: EncoderDecoder(EncoderDecoderConfig(**SIZES), rng), ANSWERED),
    (lambda rng: Seq2Seq(Seq2SeqConfig(vocab_size=9, d_model=8, d_hidden=8), rng), ANSWERED)]
CASES = [pytest.param(build, decode, id=f"{build(None).__class__.__name__}, {name}")
         for build, decodes in MODELS for name, decode in decodes.items()]


@pytest.mark.parametrize("build, decode", CASES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_parameter_that_is_not_finite_is_named(build, decode, value, rng):
    model = build(rng)
    name, parameter = list(model.named_parameters())[0]
    parameter.data[4:] = value
    words = rf"largest of the logits is .*parameter {name} holds {value} at .*lower learning rate"
    with pytest.raises(NotFinite, match=words):
        decode(model)


@pytest.mark.parametrize("build, decode", CASES)
def test_finite_parameters_are_not_blamed(build, decode, rng):
    """They are so large that logits overflow."""
    model = build(rng)
    for parameter in model.parameters():
        parameter.data[...] = 3e38 * np.sign(rng.standard_normal(parameter.data.shape))
    with pytest.raises(NotFinite, match="although all parameters are finite: they are too large"):
        decode(model)


@pytest.mark.parametrize("logits, largest", [
    ([0, np.nan], "nan"), ([0, np.inf], "inf"), ([-np.inf, -np.inf], "-inf")])
def test_logits_without_a_largest_one_are_refused(logits, largest):
    both = np.array([[1.0, 2.0], logits])
    for call in (lambda: choose_token(both[1], temperature=0), lambda: check_logits("x", both),
                 lambda: predicted_classes("x", both)):
        with pytest.raises(ValueError, match=f"largest of the logits is {largest}"):
            call()
    assert predicted_classes("x", np.array([[-np.inf, 1.0], [2.0, 1.0]])).tolist() == [1, 0]


def test_what_classifies_refuses_nan(rng):
    model = BertClassifier(BertClassifierConfig(**SIZES, n_classes=3), rng)
    model.classes.weight.data[0, 0] = np.nan
    batch = Batch(ids=np.array([[1, 2]]), lengths=np.array([2]), labels=np.array([0]))
    model(batch.ids, batch.lengths)
    with pytest.raises(NotFinite, match="parameter classes.weight holds nan"):
        mean_loss(model, [batch])
    images = Batch(inputs=np.array([[1, 2]]), labels=np.array([0]))
    with pytest.raises(NotFinite, match="accuracy: .* parameter classes.weight holds nan"):
        accuracy(model, [images])
    with pytest.raises(NotFinite, match="best_spans"):
        best_spans(np.array([[[0, np.nan], [0, 1]]]), np.ones((1, 2), bool))
    detr = DETR(DETRConfig(image_size=4, patch_size=2, channels=1, n_classes=3, n_queries=2,
                           n_heads=2, d_model=8, encoder_layers=1, decoder_layers=1), rng)
    detr.class_head.bias.data[1] = np.nan
    with pytest.raises(NotFinite, match="DETR: .* parameter class_head.bias holds nan"):
        detr.detect(np.zeros((1, 4, 4, 1), np.float32))
    detr.class_head.bias.data[1] = 0
    name, parameter = next((name, each) for name, each in detr.named_parameters()
                           if name.startswith("box_head"))
    parameter.data[...] = np.nan
    with pytest.raises(NotFinite, match=f"DETR: .* parameter {name} holds nan"):
        detr.detect(np.zeros((1, 4, 4, 1), np.float32))
