"""The trainer: shards, accumulation, state, and what it says when numbers break."""

import tracemalloc
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from marks import quick_among
from numformer import backend
from numformer.functional import IGNORE_INDEX
from numformer.models import Decoder, DecoderConfig
from numformer.data import Batch, BlockStream, consecutive_blocks
from numformer.training import NotFinite, Trainer, TrainingConfig
from decoders import STYLES, decoder_of

CONFIG = DecoderConfig(vocab_size=11, context_length=8, n_layers=2, n_heads=2, d_model=16,
                       dtype="float64")


def trainer(model=CONFIG, text=None, **settings):
    text = np.arange(400) % 11 if text is None else text
    config = TrainingConfig(**{**dict(steps=50, batch_size=6, warmup_steps=2), **settings})
    stream = BlockStream(text, model.context_length, config.batch_size * config.accumulation,
                         config.seed)
    return Trainer(decoder_of(model, np.random.default_rng(0)), stream,
                   consecutive_blocks(text[:100], model.context_length), config)


def run(steps=8, threads=2, **options):
    backend.set_threads(threads)
    t = trainer(**options)
    lines = [t.train_step() for _ in range(steps)]
    return lines, t.model.state_dict()


@pytest.mark.parametrize("model", [
    CONFIG, DecoderConfig(**{**CONFIG.as_dict(), "dtype": "float32", "dropout": 0.3,
                             "feedforward": "gelu"})])
def test_any_number_of_threads_gives_the_same_bits(model):
    lines, state = run(threads=1, model=model, shards=4)
    for threads in (2, 4):
        other_lines, other = run(threads=threads, model=model, shards=4)
        assert other_lines == lines
        assert all(np.array_equal(other[name], state[name]) for name in state)


@pytest.mark.parametrize("model", [CONFIG, DecoderConfig(**{**CONFIG.as_dict(), "dropout": 0.3})])
def test_the_plain_step_has_the_bits_of_one_shard(model):
    plain, shards = (trainer(model, shards=1) for _ in range(2))
    assert plain.parallel.is_one
    shards.parallel.is_one = False
    for _ in range(4):
        assert plain.train_step() == shards.train_step()
    for p, q in zip(plain.model.parameters(), shards.model.parameters()):
        np.testing.assert_array_equal(p.data, q.data)


@pytest.mark.parametrize("settings", [
    dict(shards=1), dict(shards=5), dict(batch_size=2, accumulation=3),
    dict(batch_size=1, accumulation=6, shards=3)])
def test_shards_and_accumulation_equal_the_large_batch(settings):
    """Also where shards have different numbers of targets: weights are targets, not rows."""
    def ragged(settings):
        t = trainer(**settings)
        whole = t.stream.batch

        def batch(step):
            inputs, targets = whole(step)
            targets = targets.copy()
            for row in range(len(targets)):
                targets[row, row % 7 + 1:] = IGNORE_INDEX
            return Batch(inputs=inputs, targets=targets)

        t.stream.batch = batch
        return [t.train_step() for _ in range(4)], t.model.state_dict()

    lines, state = ragged(dict(shards=2))
    other_lines, other = ragged(settings)
    for line, other_line in zip(lines, other_lines):
        np.testing.assert_allclose(list(line.values()), list(other_line.values()), rtol=1e-9)
    for name in state:
        # Adam divides by small gradients' size
        np.testing.assert_allclose(other[name], state[name], rtol=1e-6, atol=1e-9)


def test_a_shard_without_targets_that_count_is_left_out():
    t = trainer(shards=3)
    whole = t.stream.batch(0)
    # all of the first shard
    targets = np.where(np.arange(6)[:, None] < 2, IGNORE_INDEX, whole.targets)
    t.stream.batch = lambda step: Batch(inputs=whole.inputs, targets=targets)
    other = Decoder(CONFIG, np.random.default_rng(0))
    assert (abs(t.train_step()["loss"] - other.loss((whole.inputs[2:], whole.targets[2:]))[0])
            < 1e-12)
    t.stream.batch = lambda step: Batch(inputs=whole.inputs,
                                        targets=np.full_like(targets, IGNORE_INDEX))
    with pytest.raises(ValueError, match="step 2 holds no target that counts"):
        t.train_step()


def test_the_gradient_of_shards_equals_that_of_the_batch():
    t = trainer(shards=4)
    t.optimizer.step = lambda *arguments: None                        # look at the gradient alone
    t.train_step()
    other = Decoder(CONFIG, np.random.default_rng(0))
    other.loss_backward(other.loss(t.stream.batch(0))[1])
    for mine, theirs in zip(t.model.parameters(), other.parameters()):
        np.testing.assert_allclose(mine.grad, theirs.grad, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_training_learns_to_count():
    t = trainer(learning_rate=0.02, steps=60)
    losses = [t.train_step()["loss"] for _ in range(60)]
    assert losses[0] > 2.3 and losses[-1] < 0.2 and t.evaluate() < 0.2 and t.best_step == 60


@pytest.mark.parametrize("style", quick_among(STYLES, ["LLaMA"]))
def test_every_style_of_decoder_learns_to_look_back(style):
    """The next token is the sum of the last two, modulo 9. Without the first of them: 1.08 nats."""
    text = [1, 1]
    while len(text) < 400:
        text.append((text[-1] + text[-2]) % 9)
    counts = np.zeros((9, 9))
    np.add.at(counts, (text[:-1], text[1:]), 1)
    doubt = -(counts * np.log(counts / counts.sum(axis=1, keepdims=True), where=counts > 0,
                              out=np.zeros((9, 9)))).sum() / counts.sum()
    t = trainer(model=STYLES[style], text=np.array(text), steps=200, warmup_steps=20,
                learning_rate=0.01)
    for _ in range(200):
        t.train_step()
    assert abs(doubt - 1.08) < 0.01 and t.evaluate() < 0.75 * doubt


def test_a_loaded_state_continues_bit_identically():
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


def test_patience_counts_validations_without_improvement():
    t = trainer(patience=2)
    for loss, out in ((3.0, False), (2.0, False), (2.5, False), (2.0, True)):
        t.model.evaluation_loss = lambda batch, loss=loss: loss
        t.evaluate()
        assert t.out_of_patience is out
    assert t.best_loss == 2.0
    assert not trainer().out_of_patience


def test_a_validation_loss_that_is_not_finite_stops():
    t = trainer()
    t.model.evaluation_loss = lambda batch: np.nan
    with pytest.raises(NotFinite, match="validation loss is nan"):
        t.evaluate()
    assert t.best_loss is None and t.evaluated_at is None
    t.validation = []
    with pytest.raises(ValueError, match="no batches"):
        t.evaluate()


def test_an_abandoned_validation_changes_nothing():
    t = trainer()
    assert t.evaluate(should_stop=lambda: True) is None and t.evaluated_at is None
    assert t.best_loss is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_nan_in_a_parameter_stops_training_and_is_named(value):
    t = trainer()
    t.train_step()
    t.model.blocks[1].attention.key.weight.data[2, 3] = value
    before = t.model.state_dict()
    words = rf"step 2: parameter blocks.1.attention.key.weight holds {value} at \(2, 3\)"
    with pytest.raises(NotFinite, match=words):
        t.train_step()
    assert all(np.array_equal(before[name], array, equal_nan=True)
               for name, array in t.model.state_dict().items())
    assert t.step == 1


def test_a_broken_gradient_is_named():
    t = trainer()

    def loss_backward(saved, share, model=t.parallel.replicas[1]):
        model.norm.weight.grad[0] = np.nan

    t.parallel.replicas[1].loss_backward = loss_backward
    with pytest.raises(NotFinite, match="gradient of norm.weight holds nan"):
        t.train_step()


def test_a_diverging_run_ends_with_an_error():
    t = trainer(learning_rate=1e308, warmup_steps=0, clip_norm=0.0, optimizer="sgd")
    with pytest.raises(NotFinite):
        for _ in range(5):
            t.train_step()


@pytest.mark.slow                       # a leak shows over many steps
def test_memory_does_not_grow_over_steps():
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
    # bytes, over 75 steps and 3 validations, once the controls of each BLAS have been used
    assert held[-1] - held[2] < 20_000, held


@pytest.mark.slow
def test_memory_of_a_step_is_linear_in_the_context_length():
    """What forward saves for backward: twice as much for twice the length, attention included."""
    backend.set_threads(1)      # a second thread holds the arrays of its last task a little longer
    kept = {}
    for T in (256, 512, 1024):
        config = DecoderConfig(vocab_size=9, context_length=1024, n_layers=2, n_heads=2, d_model=32)
        model, ids = Decoder(config, np.random.default_rng(0)), np.arange(2 * T).reshape(2, T) % 9
        # compiled code, threads, gradients
        model.loss_backward(model.loss((ids, ids))[1])
        _release_workspace()
        tracemalloc.start()
        try:
            loss, saved = model.loss((ids, ids))
            kept[T] = tracemalloc.get_traced_memory()[0]
            model.loss_backward(saved)
            assert tracemalloc.get_traced_memory()[1] < 2.5 * kept[T]
        finally:
            tracemalloc.stop()
        del saved
    assert kept[1024] / kept[512] == pytest.approx(2, rel=0.05)
    assert kept[512] / kept[256] == pytest.approx(2, rel=0.1)


def _release_workspace():
    """Memory kept for arrays of other lengths must not count here."""
    if find_spec("numba") is not None:
        from numformer.kernels.runtime import workspace

        workspace.release()


def test_facts_of_a_batch_are_metrics_of_its_step():
    """Whole or in shards, which do not see them; a step without facts has no such entry."""
    ids = np.arange(40).reshape(8, 5) % 5
    plain = Batch(inputs=ids, targets=ids)
    stream = SimpleNamespace(batch=lambda step: plain.with_facts(reward=0.5) if step else plain)
    for shards in (1, 2):
        model = Decoder(CONFIG, np.random.default_rng(0))
        settings = TrainingConfig(steps=2, batch_size=8, shards=shards)
        trained = Trainer(model, stream, [], settings)
        first, second = trained.train_step(), trained.train_step()
        assert "facts" not in first and second["facts"] == {"reward": 0.5}
    with pytest.raises(ValueError, match="Batch: reward=nan must be a finite number"):
        plain.with_facts(reward=float("nan"))
