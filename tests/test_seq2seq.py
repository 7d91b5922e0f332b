"""Reading and writing with recurrent networks: padding, where the decoder looks, step by step, and the task of written dates."""

import datetime

import numpy as np
import pytest

from command import call, content, last_json
from numformer.cli import main
from numformer.commands.runs import load_run
from numformer.generation import write_greedily
from numformer.layers import GRU, AttentiveGRU
from numformer.models import Seq2Seq, Seq2SeqConfig
from numformer.tasks import PRESETS, TASKS
from numformer.tasks.dates import LENGTHS
from numformer.training import Trainer, TrainingConfig, consecutive_pairs

KINDS = ["additive", "dot", "general", "scaled_dot", "none"]
INPUTS, LENGTHS_OF = np.array([[3, 4, 5, 6], [6, 3, 0, 0], [7, 7, 4, 0]]), np.array([4, 2, 3])
OUTPUTS = np.array([[1, 4, 8], [1, 3, 3], [1, 5, 6]])


def seq2seq(rng, kind="additive", **switches):
    model = Seq2Seq(Seq2SeqConfig(**{**dict(vocab_size=9, d_model=3, d_hidden=6, attention=kind, dtype="float64"), **switches}), rng)
    for parameter in model.parameters():
        parameter.data += 0.5 * rng.standard_normal(parameter.data.shape)
    return model


# ---- the layer ------------------------------------------------------------------------------------------------------


def test_with_nothing_to_see_it_is_a_gru(rng):
    """Where no context is real, c is 0, and what is left is the plain layer with the same weights."""
    layer, plain = AttentiveGRU(3, 4, 5, rng, dtype=np.float64), GRU(3, 4, rng, dtype=np.float64)
    state = layer.state_dict()
    plain.load_state_dict({name: state[name] for name in plain.state_dict()})
    x, first = rng.standard_normal((2, 6, 3)), rng.standard_normal((2, 4))
    y = layer(x, first, rng.standard_normal((2, 7, 5)), lengths=[0, 0])
    np.testing.assert_allclose(y[..., :4], plain(x, first), rtol=1e-13)
    assert (y[..., 4:] == 0).all()


def test_what_is_seen_is_the_mean_by_weights(rng):
    layer, x, first, context = AttentiveGRU(3, 4, 5, rng, "general", np.float64), *map(rng.standard_normal, ((2, 6, 3), (2, 4), (2, 7, 5)))
    weights = layer.weights(x, first, context, [7, 3])
    np.testing.assert_allclose(layer(x, first, context, [7, 3])[..., 4:], weights @ context, rtol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=1e-12)
    assert weights.shape == (2, 6, 7) and (weights[1, :, 3:] == 0).all() and (weights[0] > 0).all()


def test_the_query_is_the_state_before(rng):
    """The first weights depend on the first state and not on the first input; the second ones on both."""
    layer, x, first, context = AttentiveGRU(3, 4, 5, rng, dtype=np.float64), *map(rng.standard_normal, ((1, 2, 3), (1, 4), (1, 7, 5)))
    weights, other = layer.weights(x, first, context), layer.weights(x + 1, first, context)
    assert np.array_equal(weights[:, 0], other[:, 0]) and not np.array_equal(weights[:, 1], other[:, 1])
    np.testing.assert_allclose(weights[:, :1], layer.attention.weights(first[:, None], context), rtol=1e-12)


def test_first_weights_are_those_of_one_input_of_both_widths(rng):
    layer = AttentiveGRU(100, 100, 300, rng)
    assert all(abs(weight.data.std() * 20 - 1) < 0.03 for weight in (layer.input.weight, layer.context_weight))
    assert layer.attention.score == "additive" and layer.width == 100 and (layer.recurrent_bias.data == 0).all()


@pytest.mark.parametrize("call_, error, words", [
    (lambda rng: AttentiveGRU(0, 1, 1, rng), ValueError, "d_in=0"), (lambda rng: AttentiveGRU(1, 0, 1, rng), ValueError, "d_out=0"),
    (lambda rng: AttentiveGRU(1, 1, 0, rng), ValueError, "d_context=0"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng, "dot"), ValueError, "they are 4 and 5"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng, "loud"), ValueError, "choose from 'additive'"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).step(np.zeros((1, 2, 3), np.float32), np.zeros((1, 4), np.float32), ()), ValueError,
     "one position"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3, 4]), ValueError, "lengths=.3, 4."),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3]), ValueError, "B=2 whole"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3, -1]), ValueError, "in 0 .. S=3"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3.0, 1.0]), ValueError, "whole numbers"),
    (lambda rng: Seq2SeqConfig(vocab_size=0, d_model=2, d_hidden=2), ValueError, "vocab_size=0"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=3), ValueError, "d_hidden=3 must be even"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=0, d_hidden=2), ValueError, "d_model=0"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=0), ValueError, "d_hidden=0"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=2, dropout=1), ValueError, "dropout=1"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=2, label_smoothing=-0.1), ValueError, "label_smoothing=-0.1"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=2, init_std=-1), ValueError, "init_std=-1"),
    (lambda rng: Seq2SeqConfig(vocab_size=5, d_model=2, d_hidden=2, dtype="float16"), ValueError, "dtype='float16'"),
    (lambda rng: Seq2SeqConfig.from_dict({"vocab_size": 5, "colour": 1}), ValueError, "missing: .'d_hidden', 'd_model'"),
    (lambda rng: seq2seq(rng, "none").attention_weights(INPUTS, LENGTHS_OF, OUTPUTS), ValueError, "no attention weights"),
    (lambda rng: seq2seq(rng).step(OUTPUTS, seq2seq(rng).begin(INPUTS, LENGTHS_OF)), ValueError, "B=3, as the cache has"),
    (lambda rng: seq2seq(rng).begin(INPUTS[0], LENGTHS_OF), ValueError, "two axes"),
])
def test_what_they_refuse(call_, error, words, rng):
    with pytest.raises(error, match=words):
        call_(rng)


# ---- the model ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_padding_never_changes_what_is_real(kind, rng):
    model = seq2seq(rng, kind)
    together, other = model(INPUTS, LENGTHS_OF, OUTPUTS), np.where(np.arange(4) < LENGTHS_OF[:, None], INPUTS, 8)
    assert np.array_equal(model(other, LENGTHS_OF, OUTPUTS), together)
    for b, length in enumerate(LENGTHS_OF):
        alone = model(INPUTS[b:b + 1, :length], LENGTHS_OF[b:b + 1], OUTPUTS[b:b + 1])
        np.testing.assert_allclose(alone[0], together[b], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_writing_goes_one_way(kind, rng):
    model, later = seq2seq(rng, kind), OUTPUTS.copy()
    later[:, 2] = 7
    before, after = model(INPUTS, LENGTHS_OF, OUTPUTS), model(INPUTS, LENGTHS_OF, later)
    assert np.array_equal(before[:, :2], after[:, :2]) and not np.isclose(before[:, 2], after[:, 2]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_it_is_the_forward(kind, rng):
    """Also after its rows were taken in another order, as a beam search does; an old cache stays good."""
    model, order = seq2seq(rng, kind), [2, 0, 0]
    whole, first = model(INPUTS, LENGTHS_OF, OUTPUTS), model.begin(INPUTS, LENGTHS_OF)
    cache, logits = first, []
    for t in range(3):
        step, cache = model.step(OUTPUTS[:, t:t + 1], cache)
        logits.append(step)
        again, _ = model.step(OUTPUTS[order, t + 1:t + 2], cache.rows(order)) if t < 2 else (None, None)
        if again is not None:
            np.testing.assert_allclose(again[:, 0], whole[order, t + 1], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), whole, rtol=1e-11, atol=1e-12)
    assert np.array_equal(model.step(OUTPUTS[:, :1], first)[0], logits[0])


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_attention_weights_are_over_what_is_real(kind, rng):
    model = seq2seq(rng, kind)
    weights = model.attention_weights(INPUTS, LENGTHS_OF, OUTPUTS)
    assert weights.shape == (3, 3, 4) and (weights[1, :, 2:] == 0).all() and (weights[0] > 0).all()
    np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=1e-12)


def test_without_attention_all_goes_through_one_vector(rng):
    """The first state is the only way; with attention there is another one."""
    for kind in KINDS:
        model = seq2seq(rng, kind)
        model.first.weight.data[...] = 0
        one, other = (model(inputs, LENGTHS_OF, OUTPUTS) for inputs in (INPUTS, (INPUTS + 1) % 9))
        assert np.array_equal(one, other) == (kind == "none")


def test_dropout_needs_a_generator(rng):
    model = seq2seq(rng, dropout=0.5)
    whole = model(INPUTS, LENGTHS_OF, OUTPUTS)
    assert np.array_equal(model(INPUTS, LENGTHS_OF, OUTPUTS), whole)
    one, same, other = (model(INPUTS, LENGTHS_OF, OUTPUTS, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other) and not np.array_equal(one, whole)


def test_counting_takes_no_memory():
    c = Seq2SeqConfig(vocab_size=30000, d_model=620, d_hidden=2000)
    F, C, V = 2000, 620, 30000
    halves = 2 * (3 * (C * F // 2 + (F // 2) ** 2) + 4 * F // 2)      # the encoder's two GRUs
    decoder = 3 * (C * F + 2 * F * F) + 4 * F + 2 * F * F + F         # cell, and additive attention
    assert (sum(p.data.size for p in Seq2Seq(c, None).parameters())
            == 2 * V * C + halves + F // 2 * F + F + decoder + (2 * F + C + 1) * V)


def test_it_learns_to_reverse(rng):
    """Targets are the sources from back to front: what attention is for. A few steps, and greedy writing gets new ones right."""
    pairs = [(source, source[::-1]) for source in (rng.integers(3, 9, rng.integers(2, 6)) for _ in range(600))]

    class Stream:
        def batch(self, step):
            chosen = np.random.default_rng(step).choice(500, 64)
            return consecutive_pairs([pairs[k] for k in chosen], 64, 0, 1, 2)[0]

    model = Seq2Seq(Seq2SeqConfig(vocab_size=9, d_model=16, d_hidden=48), np.random.default_rng(0))
    trainer = Trainer(model, Stream(), [], TrainingConfig(steps=250, learning_rate=0.01, min_learning_rate=0.0, warmup_steps=10,
                                                          weight_decay=0.0))
    losses = [trainer.train_step()["loss"] for _ in range(250)]
    answers = write_greedily(model, [source for source, _ in pairs[500:]], 0, 1, 2)
    right = np.mean([np.array_equal(answer, target) for answer, (_, target) in zip(answers, pairs[500:])])
    assert losses[0] > 2 and losses[-1] < 0.3 and right > 0.85
    weights = model.attention_weights(np.array([[3, 4, 5, 6]]), np.array([4]), np.array([[1, 6, 5, 4]]))[0]
    assert (weights.argmax(axis=1) == [3, 2, 1, 0]).sum() >= 3


# ---- the task -------------------------------------------------------------------------------------------------------

TINY = ["--d-model", "8", "--d-hidden", "8", "--batch-size", "16", "--warmup-steps", "2", "--eval-blocks", "100"]
STEPS = ["--preset", "seq2seq", "--steps", "6", "--eval-every", "3", "--save-every", "2", *TINY]


@pytest.fixture(scope="module")
def dates(tmp_path_factory):
    """A finished run of 6 steps on two threads, validated twice."""
    out = tmp_path_factory.mktemp("dates") / "run"
    assert main(["train", "--out", str(out), *STEPS]) == 0
    return out


def test_a_run_leaves_a_picture_and_can_be_measured(capsys, dates):
    assert (dates / "alignment.png").read_bytes().startswith(b"\x89PNG") and (dates / "loss.png").exists()
    status, out, _ = call(capsys, "eval", dates, "--json")
    result = last_json(out)
    assert status == 0 and result["tokens"] == 11 * 1000 and 0 <= result["exact"] <= 1 and result["val_loss"] > 1
    assert {f"exact_{least}_to_{below - 1}" for least, below in zip(LENGTHS, LENGTHS[1:])} <= set(result)
    model, tokenizer, facts, task = load_run(dates)
    assert task.name == "dates" and model.config.attention == "additive" and len(tokenizer) == model.config.vocab_size
    assert len(task.sample(model, tokenizer, np.random.default_rng(0)).split("\n")) == 4


def test_a_resumed_run_is_the_same_byte_for_byte(capsys, dates, tmp_path):
    out = tmp_path / dates.name
    assert call(capsys, "train", "--out", out, "--stop-at", 4, "--threads", 1, *STEPS)[0] == 0
    assert call(capsys, "train", "--out", out, "--resume")[0] == 0
    assert content(out) == content(dates)


def test_without_attention_there_is_no_picture(capsys, tmp_path):
    assert call(capsys, "train", "--preset", "seq2seq", "--attention", "none", "--out", tmp_path / "r", "--steps", 1, *TINY)[0] == 0
    assert not (tmp_path / "r" / "alignment.png").exists() and (tmp_path / "r" / "loss.png").exists()


def test_the_measure_counts_what_is_right():
    """A stand-in that writes every other date right: by lengths as over all."""
    task = TASKS["dates"]
    material = task.pairs()
    tokenizer, wrong = task.tokenizer(material), {source for source, _ in material.held_out[::2]}

    class Half(type(task)):
        def answers(self, model, tokenizer, sources):
            targets = dict(material.held_out)
            return [targets[source] + "!" * (source in wrong) for source in sources]

    measured = Half().measure(None, tokenizer, material)
    sizes = [sum(least <= len(source) < below for source, _ in material.held_out) for least, below in zip(LENGTHS, LENGTHS[1:])]
    assert measured.pop("exact") == 0.5 and sum(sizes) == 1000 and min(sizes) > 100
    assert sum(size * part for size, part in zip(sizes, measured.values())) == pytest.approx(500)


def test_dates_held_out_are_not_trained_on():
    material = TASKS["dates"].pairs()
    assert not {target for _, target in material.training} & {target for _, target in material.held_out}
    assert len(material.training) == 20000 and len(set(material.held_out)) == 1000
    assert all(datetime.date.fromisoformat(target) for _, target in material.held_out)


@pytest.mark.parametrize("argv, words", [
    (["--attention", "loud"], "attention='loud' is unknown; choose from 'additive'"), (["--d-hidden", "7"], "d_hidden=7 must be even"),
    (["--n-heads", "2"], "--n-heads is no setting of Seq2Seq"), (["--data", "x.txt"], "the task dates makes its own examples")])
def test_mistakes_are_one_line(capsys, argv, words, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "seq2seq", "--out", tmp_path / "r", *argv)
    assert status in (1, 2) and words in err and not (tmp_path / "r").exists()


def test_the_preset_is_a_model_of_its_task():
    preset = PRESETS["seq2seq"]
    assert preset.kind in TASKS[preset.task].kinds and Seq2SeqConfig(vocab_size=50, **preset.model).attention == "additive"
