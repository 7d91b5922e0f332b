"""Frozen parameters: part of the model, and of nothing that training does."""

import json

import numpy as np
import pytest

from command import SMALL, call
from marks import every
from numformer.data import Batch
from numformer.functional import linear, linear_backward_accumulate
from numformer.kernels import linear as compiled_linear
from numformer.layers import FeedForward, Linear
from numformer.models import Decoder, DecoderConfig
from numformer.runs import load_run
from numformer.training import OPTIMIZERS, Trainer, TrainingConfig
from numformer.training.parallel.shards import Shards
from numformer.verify.registry import ESTIMATORS, LAYERS, LOSSES, MODELS
from numformer.verify.tensors import gradients_at, named_tensors, output_at

CONFIG = DecoderConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=8,
                       dtype="float64")
FROZEN = "embedding", "blocks.0.attention", "blocks.1.feedforward.hidden.weight"


def decoder():
    return Decoder(CONFIG, np.random.default_rng(0))


def some_batch():
    ids = np.random.default_rng(1).integers(0, 9, (8, 8))
    return Batch(inputs=ids, targets=np.roll(ids, 1, axis=1))


@pytest.mark.parametrize("case", [*every(8, LAYERS + ESTIMATORS), *every(30, MODELS + LOSSES)],
                         ids=lambda case: case.name)
def test_only_what_is_trained_has_a_gradient_in_every_layer(case):
    """The output is the same, and so are the other gradients, up to rounding: each in turn."""
    layer, inputs, rng = case.layer(), case.inputs(), np.random.default_rng(0)
    y = output_at(layer, inputs, case.options, {})
    dy = np.float64(0.7) if y.ndim == 0 else rng.standard_normal(y.shape)
    whole = gradients_at(layer, inputs, case.options, {}, dy)
    parameters = dict(layer.named_parameters())
    for chosen in (list(parameters)[::2], list(parameters)[1::2]):
        for name, parameter in parameters.items():
            parameter.set_trained(name not in chosen)
        gradients = gradients_at(layer, inputs, case.options, {}, dy)
        np.testing.assert_allclose(output_at(layer, inputs, case.options, {}), y, rtol=1e-12)
        for name in named_tensors(layer, inputs):
            expected = 0 if name in chosen else whole[name]
            size = 1e-11 * case.condition * max(1, np.abs(whole[name]).max(initial=0))
            np.testing.assert_allclose(gradients[name], expected, rtol=1e-10, atol=size)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("settings", [dict(shards=1), dict(shards=2, accumulation=2)],
                         ids=["whole", "shards"])
def test_a_training_leaves_frozen_parameters_as_they_are(name, settings):
    """To the bit, also where the optimizer decays weights; all others move."""
    model = decoder().freeze(*FROZEN)
    before, trained = model.state_dict(), model.trained_parameters()
    config = TrainingConfig(steps=2, batch_size=4, optimizer=name, weight_decay=0.5,
                            warmup_steps=0, **settings)
    trainer = Trainer(model, type("Stream", (), {"batch": lambda self, step: some_batch()})(), [],
                      config)
    for _ in range(2):
        trainer.train_step()
    after, moments = model.state_dict(), trainer.optimizer.state_dict()
    for key in before:
        assert np.array_equal(after[key], before[key]) == (key not in trained), key
    assert {key.partition(".")[2] for key in moments} == trained.keys()


def test_the_norm_of_the_gradient_is_that_of_trained_parameters():
    """So freezing changes what is clipped; and the number of shards does not."""
    model, norms = decoder().freeze(*FROZEN), []
    for shards in (1, 2, 4):
        config = TrainingConfig(steps=1, batch_size=8, shards=shards)
        optimizer = OPTIMIZERS["adamw"](model, config)
        norms.append(Shards(model, optimizer, config).gradient(some_batch(), 0)[1])
    expected = np.sqrt(sum((p.grad ** 2).sum() for p in model.trained_parameters().values()))
    np.testing.assert_allclose(norms, expected, rtol=1e-12)
    whole = decoder()
    _, saved = whole.loss(some_batch())
    whole.loss_backward(saved)
    assert norms[0] < 0.95 * np.sqrt(sum((p.grad ** 2).sum() for p in whole.parameters()))


def test_replicas_are_frozen_as_the_model_is():
    model = decoder().freeze(*FROZEN)
    assert model.replica().trained_parameters().keys() == model.trained_parameters().keys()


def products(function):
    """How many products of matrices the compiled kernel of `linear` makes in a call."""
    counted, multiply = [], compiled_linear.MULTIPLY
    dtype = np.dtype(np.float64)

    def count(*arguments):
        counted.append(1)
        multiply[dtype](*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_linear, "MULTIPLY", {dtype: count})
        function()
    return len(counted)


def test_a_frozen_weight_costs_no_product():
    """Forward, dx and dW are three products of a map; without dW, two."""
    x = np.random.default_rng(0).standard_normal((64, 32))

    def step():
        y, saved = layer.forward(x)
        layer.backward(y, saved)

    layer = Linear(32, 48, np.random.default_rng(0), dtype=np.float64)
    assert products(step) == 3
    layer.freeze("weight")
    assert products(step) == 2
    assert np.abs(layer.bias.grad).max() > 0
    layer = FeedForward(32, 48, "gelu", np.random.default_rng(0), dtype=np.float64).freeze()
    assert products(step) == 4                        # of two maps, each by itself


def test_the_reference_of_a_frozen_map():
    x, weight = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    bias_grad = np.zeros(1)
    _, saved = linear(x, weight, np.zeros(1))
    dx = linear_backward_accumulate(np.array([[10.0]]), saved, None, bias_grad)
    assert dx.tolist() == [[30.0, 40.0]] and bias_grad.tolist() == [10.0]


@pytest.mark.parametrize("vocab_size", [9, 3000])                     # one slice of logits, and two
def test_a_frozen_head_gives_the_same_gradient_below_it(vocab_size):
    config = DecoderConfig(vocab_size=vocab_size, context_length=8, n_layers=1, n_heads=1,
                           d_model=8, tied=False)
    found = []
    for freeze in ((), ("head",)):
        model = Decoder(config, np.random.default_rng(0))
        if freeze:
            model.freeze(*freeze)
        _, saved = model.loss(some_batch())
        model.loss_backward(saved)
        found.append(model)
    for name, parameter in found[1].trained_parameters().items():
        other = dict(found[0].named_parameters())[name]
        np.testing.assert_array_equal(parameter.grad, other.grad)
    assert not found[1].head.weight.grad.any() and found[0].head.weight.grad.any()


def test_what_cannot_be_frozen_is_refused():
    model = decoder()
    with pytest.raises(ValueError, match="freeze found no parameter 'blocks.7'"):
        model.freeze("blocks.0", "blocks.7")
    assert model.trained_parameters().keys() == model.state_dict().keys()
    with pytest.raises(ValueError, match="no parameter of this Decoder is trained"):
        OPTIMIZERS["adamw"](decoder().freeze(), TrainingConfig(steps=1))
    optimizer = OPTIMIZERS["adamw"](model, TrainingConfig(steps=1))
    model.freeze("norm")
    with pytest.raises(ValueError, match="was frozen after its optimizer was made"):
        optimizer.step(0.1)


def test_a_representation_says_what_is_frozen():
    layer = Linear(2, 3, np.random.default_rng(0)).freeze("weight")
    assert "9 parameters, 3 of them trained" in layer._repr_html_()
    assert repr(layer.weight) == "Parameter(shape=(2, 3), dtype=float32, frozen)"


def test_a_run_remembers_what_is_frozen(capsys, monkeypatch, text, tmp_path):
    """Its checkpoint, what goes on from it, what is loaded from it, and `count`."""
    from numformer.commands.shared import trainers

    made, original = [], trainers.new_trainer

    def with_frozen(*arguments):
        *others, frozen = arguments if len(arguments) == 7 else (*arguments, ("embedding.weight",))
        made.append(original(*others, frozen))
        return made[-1]

    for module in (trainers,):
        monkeypatch.setattr(module, "new_trainer", with_frozen)
    runs = [tmp_path / name for name in "ab"]
    for out, stops in zip(runs, ([], ["--stop-at", 2])):
        status, said, error = call(capsys, "train", "--data", text, "--out", out, "--steps", 4,
                                   *stops, *SMALL)
        assert status == 0, error
    assert call(capsys, "train", "--out", runs[1], "--resume")[0] == 0
    assert "embedding.weight" not in made[-1].optimizer.parameters
    states = [(out / "checkpoint.safetensors").read_bytes() for out in runs]
    assert states[0] == states[1]
    model, *_ = load_run(runs[0])
    assert not model.embedding.weight.trained and model.norm.weight.trained
    said = call(capsys, "count", runs[0], "--json")[1]
    counted = json.loads(said.splitlines()[-1])
    size = model.embedding.weight.data.size
    assert counted["trained_parameters"] == counted["parameters"] - size
    assert "trained" in said and "the others are frozen" in said
