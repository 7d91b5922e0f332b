"""Batches, schedules, optimizers and the trainer."""

import math

import numpy as np
import pytest

from numformer import backend
from numformer.functional import IGNORE_INDEX
from numformer.layers import Linear
from numformer.models import Decoder, DecoderConfig
from numformer.training import (
    SCHEDULES, SGD, Adam, AdamW, Batch, BlockStream, NotFinite, Trainer, TrainingConfig, clip_gradients, consecutive_blocks, learning_rate,
    mean_loss)
from test_decoder import STYLES

CONFIG = DecoderConfig(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=16, dtype="float64")


def trainer(model=CONFIG, text=None, **settings):
    text = np.arange(400) % 11 if text is None else text
    config = TrainingConfig(**{**dict(steps=50, batch_size=6, warmup_steps=2), **settings})
    stream = BlockStream(text, model.context_length, config.batch_size * config.accumulation, config.seed)
    return Trainer(Decoder(model, np.random.default_rng(0)), stream, consecutive_blocks(text[:100], model.context_length), config)


# ---- batches --------------------------------------------------------------------------------------------------------


def test_a_stream_is_a_function_of_seed_and_step():
    def batches(seed):
        return [BlockStream(np.arange(1000), 8, 4, seed).batch(step).inputs for step in (3, 1, 3)]

    assert np.array_equal(batches(0)[0], batches(0)[2]) and not np.array_equal(batches(0)[0], batches(0)[1])
    assert not np.array_equal(batches(0)[0], batches(1)[0])


def test_a_stream_reaches_the_first_and_the_last_token():
    stream = BlockStream(np.arange(10), 8, 50, seed=0)
    inputs, targets = stream.batch(0)
    assert set(inputs[:, 0]) == {0, 1} and targets.max() == 9


def test_consecutive_blocks_hold_every_target_once(rng):
    for n in (9, 16, 17, 18, 100):
        ids = rng.integers(0, 50, n)
        for tokens in (1, 16, 20, 10**6):
            batches = consecutive_blocks(ids, 8, tokens)
            assert all(batch.inputs.size <= max(tokens, 8) for batch in batches)
            targets = np.concatenate([batch.targets.ravel() for batch in batches])
            inputs = np.concatenate([batch.inputs.ravel() for batch in batches])
            assert np.array_equal(targets, ids[1:]) and np.array_equal(inputs, ids[:-1])
    assert [len(batch.inputs) for batch in consecutive_blocks(np.arange(100), 8, blocks=3)] == [3]
    assert consecutive_blocks(np.arange(100), 8, blocks=3)[0].inputs[:, 0].tolist() == [0, 32, 64]


def test_the_loss_over_blocks_is_the_mean_over_tokens(rng):
    model, ids = Decoder(CONFIG, rng), rng.integers(0, 11, 60)
    losses = [float(model.loss((ids[None, t : t + 8], ids[None, t + 1 : t + 9]))[0]) for t in range(0, 56, 8)]
    last = float(model.loss((ids[None, 56:59], ids[None, 57:60]))[0])
    expected = (8 * sum(losses) + 3 * last) / 59
    for tokens in (1, 16, 4096):
        assert abs(mean_loss(model, consecutive_blocks(ids, 8, tokens)) - expected) < 1e-12


@pytest.mark.parametrize("ids, words", [
    (np.arange(8), "8 tokens is too short"), (np.zeros((3, 30), int), r"shape \(N,\)"), (np.array([], int), "empty")])
def test_texts_too_short(ids, words):
    for make in (lambda: BlockStream(ids, 8, 2, 0), lambda: consecutive_blocks(ids, 8)):
        with pytest.raises(ValueError, match=words):
            make()


# ---- schedules and optimizers ---------------------------------------------------------------------------------------


def test_schedules_at_their_ends():
    for name in SCHEDULES:
        rates = [learning_rate(name, step, 100, peak=1.0, floor=0.1, warmup=9) for step in range(101)]
        np.testing.assert_allclose(rates[:9], np.arange(1, 10) / 10)
        assert rates[9] == 1.0 and abs(rates[100] - (1.0 if name == "constant" else 0.1)) < 1e-15
        assert all(0 <= later <= earlier for earlier, later in zip(rates[9:], rates[10:]))
    assert abs(learning_rate("cosine", 50, 100, 1.0, 0.0) - 0.5) < 1e-15
    with pytest.raises(ValueError, match="'cosine'"):
        learning_rate("cosinus", 0, 1, 1.0)


def layer_with_gradient(rng):
    layer = Linear(3, 2, rng, dtype=np.float64)
    layer.bias.data += 1
    return layer


def test_optimizers_by_their_equations(rng):
    gradients = rng.standard_normal((5, 3, 2))
    makers = {"sgd": lambda m: SGD(m, 0.7), "adam": lambda m: Adam(m, 0.8, 0.9),
              "adamw": lambda m: AdamW(m, 0.8, 0.9, weight_decay=0.3)}
    for name, make in makers.items():
        layer = layer_with_gradient(np.random.default_rng(0))
        optimizer, theta = make(layer), layer.weight.data.copy()
        b = m = v = 0
        for t, g in enumerate(gradients, 1):
            layer.zero_grad()
            layer.weight.grad += g
            optimizer.step(0.1)
            b = 0.7 * b + g
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
            if name == "adamw":
                theta = theta - 0.1 * 0.3 * theta
            theta = theta - 0.1 * (b if name == "sgd" else (m / (1 - 0.8 ** t)) / (np.sqrt(v / (1 - 0.9 ** t)) + 1e-8))
        np.testing.assert_allclose(layer.weight.data, theta, rtol=1e-12)
        assert (layer.bias.data == 1).all(), "no gradient, and no decay of vectors"


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
def test_optimizers_keep_the_dtype_and_round_trip(kind, rng):
    layer = Linear(3, 2, rng)
    optimizer = kind(layer)
    layer.weight.grad += 1
    optimizer.step(np.float64(0.1))
    state = optimizer.state_dict()
    assert layer.weight.data.dtype == np.float32 and all(array.dtype == np.float32 for array in state.values())
    other = kind(layer)
    other.load_state_dict(state, optimizer.steps)
    assert other.steps == 1 and all(np.array_equal(array, state[name]) for name, array in other.state_dict().items())
    with pytest.raises(ValueError, match="another optimizer"):
        other.load_state_dict({}, 1)


@pytest.mark.parametrize("make", [
    lambda m: SGD(m, 1.0), lambda m: Adam(m, beta1=-0.1), lambda m: Adam(m, beta2=1.0), lambda m: AdamW(m, weight_decay=-1)])
def test_bad_optimizers(make, rng):
    with pytest.raises(ValueError):
        make(Linear(1, 1, rng))


def test_the_norm_is_summed_in_float64(rng):
    layer = Linear(100, 100, rng)
    layer.weight.grad += np.float32(1e-25)
    assert abs(clip_gradients(layer.parameters(), 0) / 1e-23 - 1) < 1e-6
    layer.weight.grad[...] = 1e25
    assert abs(clip_gradients(layer.parameters(), 0) / 1e27 - 1) < 1e-6


def test_clipping(rng):
    layer = Linear(3, 2, rng, dtype=np.float64)
    layer.weight.grad += rng.standard_normal((3, 2))
    layer.bias.grad += 1
    before = math.sqrt((layer.weight.grad ** 2).sum() + 2)
    direction = layer.weight.grad / before
    assert abs(clip_gradients(layer.parameters(), 0.5) - before) < 1e-12
    np.testing.assert_allclose(layer.weight.grad, 0.5 * direction, rtol=1e-12)
    assert abs(clip_gradients(layer.parameters(), 0.7) - 0.5) < 1e-12 and abs(clip_gradients(layer.parameters(), 0) - 0.5) < 1e-12


@pytest.mark.parametrize("settings, words", [
    (dict(steps=0), "steps=0"), (dict(batch_size=1.5), "batch_size"), (dict(shards=0), "shards"),
    (dict(learning_rate=-1.0), "learning_rate"),
    (dict(optimizer="lion"), "adamw"), (dict(schedule="step"), "cosine"), (dict(beta2=1.0), "beta2"), (dict(seed=-1), "seed"),
    (dict(clip_norm=float("inf")), "clip_norm"), (dict(patience=-1), "patience"),
    (dict(learning_rate=1e-5), "give both")])
def test_bad_settings(settings, words):
    with pytest.raises(ValueError) as caught:
        TrainingConfig(**{"steps": 10, **settings})
    assert words in str(caught.value)


# ---- the trainer ----------------------------------------------------------------------------------------------------


def run(steps=8, threads=2, **options):
    backend.set_threads(threads)
    t = trainer(**options)
    lines = [t.train_step() for _ in range(steps)]
    return lines, t.model.state_dict()


@pytest.mark.parametrize("model", [
    CONFIG, DecoderConfig(**{**CONFIG.as_dict(), "dtype": "float32", "dropout": 0.3, "feedforward": "gelu"})])
def test_any_number_of_threads_gives_the_same_bits(model):
    lines, state = run(threads=1, model=model, shards=4)
    for threads in (2, 4):
        other_lines, other = run(threads=threads, model=model, shards=4)
        assert other_lines == lines and all(np.array_equal(other[name], state[name]) for name in state)


@pytest.mark.parametrize("settings", [
    dict(shards=1), dict(shards=5), dict(batch_size=2, accumulation=3), dict(batch_size=1, accumulation=6, shards=3)])
def test_shards_and_accumulation_equal_the_large_batch(settings):
    """Also where the shards hold different numbers of tokens that count: the weights are tokens, not rows."""
    def ragged(settings):
        t = trainer(**settings)
        whole = t.stream.batch

        def batch(step):
            inputs, targets = whole(step)
            targets = targets.copy()
            for row in range(len(targets)):
                targets[row, row % 7 + 1:] = IGNORE_INDEX
            return Batch(inputs, targets)

        t.stream.batch = batch
        return [t.train_step() for _ in range(4)], t.model.state_dict()

    lines, state = ragged(dict(shards=2))
    other_lines, other = ragged(settings)
    for line, other_line in zip(lines, other_lines):
        np.testing.assert_allclose(list(line.values()), list(other_line.values()), rtol=1e-9)
    for name in state:
        np.testing.assert_allclose(other[name], state[name], rtol=1e-6, atol=1e-9)     # Adam divides by small gradients' size


def test_a_shard_without_targets_that_count_is_left_out():
    t = trainer(shards=3)
    whole = t.stream.batch(0)
    targets = np.where(np.arange(6)[:, None] < 2, IGNORE_INDEX, whole.targets)        # all of the first shard
    t.stream.batch = lambda step: Batch(whole.inputs, targets)
    other = Decoder(CONFIG, np.random.default_rng(0))
    assert abs(t.train_step()["loss"] - other.loss((whole.inputs[2:], whole.targets[2:]))[0]) < 1e-12
    t.stream.batch = lambda step: Batch(whole.inputs, np.full_like(targets, IGNORE_INDEX))
    with pytest.raises(ValueError, match="step 2 holds no target that counts"):
        t.train_step()


def test_one_gradient_of_shards_equals_that_of_the_batch():
    t = trainer(shards=4)
    t.optimizer.step = lambda rate: None                              # look at the gradient alone
    t.train_step()
    other = Decoder(CONFIG, np.random.default_rng(0))
    other.loss_backward(other.loss(t.stream.batch(0))[1])
    norm = math.sqrt(sum((parameter.grad ** 2).sum() for parameter in other.parameters()))
    for mine, theirs in zip(t.model.parameters(), other.parameters()):
        np.testing.assert_allclose(mine.grad, theirs.grad * min(1, 1 / norm), rtol=1e-10, atol=1e-13)


def test_training_learns_to_count():
    t = trainer(learning_rate=0.02, steps=60)
    losses = [t.train_step()["loss"] for _ in range(60)]
    assert losses[0] > 2.3 and losses[-1] < 0.2 and t.evaluate() < 0.2 and t.best_step == 60


@pytest.mark.parametrize("style", STYLES)
def test_every_style_of_decoder_learns_to_look_back(style):
    """The next token is the sum of the last two, modulo 9. The last alone leaves 1.08 nats of doubt."""
    text = [1, 1]
    while len(text) < 400:
        text.append((text[-1] + text[-2]) % 9)
    counts = np.zeros((9, 9))
    np.add.at(counts, (text[:-1], text[1:]), 1)
    doubt = -(counts * np.log(counts / counts.sum(axis=1, keepdims=True), where=counts > 0, out=np.zeros((9, 9)))).sum() / counts.sum()
    t = trainer(model=STYLES[style], text=np.array(text), steps=200, warmup_steps=20, learning_rate=0.01)
    for _ in range(200):
        t.train_step()
    assert abs(doubt - 1.08) < 0.01 and t.evaluate() < 0.75 * doubt


def test_a_state_goes_on_as_if_nothing_had_happened():
    one, other = trainer(model=DecoderConfig(**{**CONFIG.as_dict(), "dropout": 0.2})), None
    for step in range(6):
        if step == 3:
            arrays, numbers = one.state_dict()
            other = trainer(model=one.model.config)
            other.load_state_dict(arrays, numbers)
        one.train_step()
        if other:
            other.train_step()
    for name, array in one.state_dict()[0].items():
        assert np.array_equal(array, other.state_dict()[0][name])


def test_patience_counts_validations_without_a_gain():
    t = trainer(patience=2)
    for loss, out in ((3.0, False), (2.0, False), (2.5, False), (2.0, True)):
        t.model.loss = lambda batch, rng=None, loss=loss: (loss, None)
        t.evaluate()
        assert t.out_of_patience is out
    assert t.best_loss == 2.0
    assert not trainer().out_of_patience


def test_a_validation_loss_that_is_not_finite_stops():
    t = trainer()
    t.model.loss = lambda batch, rng=None: (np.nan, None)
    with pytest.raises(NotFinite, match="validation loss is nan"):
        t.evaluate()
    assert t.best_loss is None and t.evaluated_at is None
    t.validation = []
    with pytest.raises(ValueError, match="no batches"):
        t.evaluate()


def test_a_validation_that_was_given_up_is_not_remembered():
    t = trainer()
    assert t.evaluate(should_stop=lambda: True) is None and t.evaluated_at is None and t.best_loss is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_in_a_parameter_stops_and_is_named(value):
    t = trainer()
    t.train_step()
    t.model.blocks[1].attention.key.weight.data[2, 3] = value
    before = t.model.state_dict()
    with pytest.raises(NotFinite, match=rf"step 2: parameter blocks.1.attention.key.weight holds {value} at \(2, 3\)"):
        t.train_step()
    assert all(np.array_equal(before[name], array, equal_nan=True) for name, array in t.model.state_dict().items()) and t.step == 1


def test_a_broken_gradient_is_named():
    t = trainer()

    def loss_backward(saved, share, model=t.replicas[1]):
        model.norm.gain.grad[0] = np.nan

    t.replicas[1].loss_backward = loss_backward
    with pytest.raises(NotFinite, match="gradient of norm.gain holds nan"):
        t.train_step()


def test_a_learning_rate_that_blows_up_ends_in_words():
    t = trainer(learning_rate=1e308, warmup_steps=0, clip_norm=0.0, optimizer="sgd")
    with pytest.raises(NotFinite):
        for _ in range(5):
            t.train_step()


def test_memory_stays_flat():
    import gc
    import tracemalloc

    t = trainer(model=DecoderConfig(**{**CONFIG.as_dict(), "dropout": 0.1}))
    held = []
    tracemalloc.start()
    try:
        for _ in range(6):
            for _ in range(25):
                t.train_step()
            t.evaluate()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[-1] - held[1] < 20_000, held                          # bytes, over 100 steps and 4 validations
