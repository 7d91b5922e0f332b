"""BERT: what it sees, what it is asked for, its rows and batches; the classifier and the sentence vectors on its trunk."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX, cosine_similarity, cosine_similarity_backward, triplet_loss, triplet_loss_backward
from numformer.models import (
    BERT_CONFIGS, Bert, BertClassifier, BertClassifierConfig, BertConfig, BertEncoder, BertEncoderConfig, SentenceBert, SentenceBertConfig,
    count, take_over_trunk, trunk_switches)
from numformer.training import (
    BertBatch, BertStream, LabelledRows, PassageStream, Triplets, consecutive_masked_rows, consecutive_passages, passage_rows)

SIZES = dict(vocab_size=20, context_length=12, n_layers=2, n_heads=2, d_model=8, dtype="float64")
MODERN = dict(segments=0, norm_first=True, positions="rotary", feedforward="geglu", bias=False, window=2, global_every=3)
SPECIAL, MASKS = (0, 1, 2), dict(special=[0, 1, 2, 3], vocab_size=20, mask_id=3)
PUBLISHED = {"bert-base": 110, "bert-large": 340, "roberta-base": 125, "roberta-large": 355, "modernbert-base": 149,
             "modernbert-large": 395}                                 # in millions


def some_passages(rng, n, longest=6):
    return [tuple(rng.integers(4, 20, rng.integers(1, longest)) for _ in range(2)) for _ in range(n)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name):
    """Within 1%; but BERT large, printed with two digits in its paper: 336 M is 340 M to the nearest ten."""
    found = count(BERT_CONFIGS[name])["parameters"] / 1e6
    assert round(found, -1) == 340 if name == "bert-large" else abs(found / PUBLISHED[name] - 1) < 0.01


def test_counts_of_the_published_checkpoints():
    """The bare encoder with its pooler, and all that pre-training has: as the published implementation builds them."""
    for name, bare, all_of_it in (("bert-base", 109_482_240, 110_106_428), ("bert-large", 335_141_888, 336_226_108)):
        model = Bert(BERT_CONFIGS[name], None)
        assert sum(p.data.size for part in (model.trunk, model.pooler) for p in part.parameters()) == bare
        assert count(BERT_CONFIGS[name])["parameters"] == sum(p.data.size for p in model.parameters()) == all_of_it


def test_local_layers_cost_less():
    config = BertConfig(**{**SIZES, **MODERN, "context_length": 100, "n_layers": 3})
    wide = BertConfig(**{**SIZES, **MODERN, "context_length": 100, "n_layers": 3, "window": 0})
    keys = 5 - (1 + 2) * 2 / 100                                      # a window of 5 is cut at both ends of the text
    assert count(wide)["flops_per_token"] - count(config)["flops_per_token"] == round(2 * 4 * 8 * (100 - keys))
    assert count(config)["kv_bytes_per_token"] == 0


@pytest.mark.parametrize("switches", [{}, MODERN, dict(positions="alibi", norm_first=True), dict(positions="sinusoidal")], ids=str)
def test_padding_never_changes_the_real_positions(switches, rng):
    trunk = BertEncoder(BertEncoderConfig(**{**SIZES, **switches}), rng)
    ids, lengths = rng.integers(0, 20, (3, 9)), np.array([9, 4, 6])
    y = trunk(ids, lengths=lengths)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(y[row, :length], trunk(ids[row:row + 1, :length])[0], rtol=1e-12, atol=1e-13)
    other = ids.copy()
    other[1, 4:] = 7
    assert np.array_equal(trunk(other, lengths=lengths)[1, :4], y[1, :4])


def test_both_sides_are_seen(rng):
    trunk = BertEncoder(BertEncoderConfig(**SIZES), rng)
    ids = rng.integers(0, 20, (1, 9))
    for place in (0, 8):
        other = ids.copy()
        other[0, place] = (other[0, place] + 1) % 20
        assert (trunk(other) != trunk(ids)).any(axis=-1).all()


def test_local_and_global_layers_take_turns(rng):
    windows = [pattern.window for pattern in BertEncoder(BertEncoderConfig(**{**SIZES, **MODERN, "n_layers": 4}), rng).patterns()]
    assert windows == [None, (2, 2), (2, 2), None]
    weights = BertEncoder(BertEncoderConfig(**{**SIZES, **MODERN}), rng).attention_weights(rng.integers(0, 20, (1, 9)))
    assert (weights[0] > 0).all() and (weights[1][0, 0, 0, 3:] == 0).all()


def test_content_layers_do_not_feel_the_order(rng):
    """The vectors of all layers but the last, which is rotary, change places with their tokens."""
    trunk = BertEncoder(BertEncoderConfig(**{**SIZES, "n_layers": 3, "positions": "rotary", "content_layers": 2}), rng)
    ids, order = rng.integers(0, 20, (1, 9)), rng.permutation(9)
    here, there = trunk.attention_weights(ids), trunk.attention_weights(ids[:, order])
    same = [np.allclose(one[:, :, order][..., order], other, rtol=1e-12, atol=1e-14) for one, other in zip(here, there)]
    assert same == [True, True, False]


def test_like_attends_to_like(rng):
    switches = dict(d_model=64, positions="none", segments=0, init_std=0.2, like_to_like=True)
    trunk = BertEncoder(BertEncoderConfig(**{**SIZES, **switches}), rng)
    weights = trunk.attention_weights(np.array([[4, 5, 6, 4, 7, 8]]))[0][0]           # (H, T, T)
    assert (weights[:, 0, 3] > 10 * weights[:, 0, [1, 2, 4, 5]].max(axis=1)).all()
    np.testing.assert_allclose(weights[:, 0, 0], weights[:, 0, 3], rtol=1e-12)
    assert not any(np.shares_memory(block.attention.key.weight.data, block.attention.query.weight.data) for block in trunk.encoder.blocks)
    assert BertEncoder(BertEncoderConfig(**SIZES, like_to_like=True), None)


def test_segments_and_positions_matter(rng):
    trunk = BertEncoder(BertEncoderConfig(**SIZES), rng)
    ids = np.array([[1, 5, 5, 2]])
    assert np.array_equal(trunk(ids), trunk(ids, np.zeros((1, 4), int)))
    assert (trunk(ids, np.array([[0, 0, 1, 1]])) != trunk(ids)).any()
    assert (trunk(ids)[0, 1] != trunk(ids)[0, 2]).any()
    bare = BertEncoder(BertEncoderConfig(**{**SIZES, "positions": "none", "segments": 0}), rng)
    np.testing.assert_allclose(bare(ids[:, ::-1]), bare(ids)[:, ::-1], rtol=1e-12, atol=1e-14)


def test_the_loss_is_that_of_all_logits_at_the_hidden_places(rng):
    """The head runs at the hidden places alone; the next-sentence loss is added."""
    model = Bert(BertConfig(**SIZES), rng)
    rows = passage_rows(some_passages(rng, 5), 12, *SPECIAL, [True, False, True, True, False])
    batch = BertStream(rows, batch_size=5, seed=0, **MASKS).batch(0)
    log_p = np.log(np.exp(model.masked_logits(*batch[:1], *batch[2:4])))
    log_p = log_p - np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
    b, t = np.nonzero(batch.targets != IGNORE_INDEX)
    verdict = model.next_sentence_logits(batch.inputs, batch.segments, batch.lengths)
    verdict = verdict - np.log(np.exp(verdict).sum(axis=-1, keepdims=True))
    expected = -log_p[b, t, batch.targets[b, t]].mean() - verdict[np.arange(5), batch.follows].mean()
    np.testing.assert_allclose(model.loss(batch)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("change, error, words", [
    (dict(targets=np.array([[20, 0]])), ValueError, "0 .. 19"), (dict(targets=np.array([[5]])), ValueError, "the shape of inputs"),
    (dict(targets=np.array([[1.0, 2.0]])), TypeError, "integers"), (dict(lengths=np.array([3])), ValueError, "1 .. T=2"),
    (dict(lengths=[2]), ValueError, "lengths"), (dict(segments=np.array([[0]])), ValueError, "segments"),
    (dict(segments=np.array([[0, 2]])), ValueError, "0 .. 1"), (dict(follows=np.array([2])), ValueError, "0 .. 1"),
    (dict(targets=np.full((1, 2), IGNORE_INDEX)), ValueError, "empty")])
def test_batches_that_do_not_fit_are_named(change, error, words, rng):
    batch = BertBatch(np.array([[1, 5]]), np.array([[-100, 6]]), np.array([[0, 0]]), np.array([2]), np.array([1]))
    model = Bert(BertConfig(**SIZES), rng)
    model.loss(batch)
    with pytest.raises(error) as caught:
        model.loss(batch._replace(**change))
    assert words in str(caught.value)


@pytest.mark.parametrize("config, change, words", [
    (BertConfig, dict(positions="spiral"), "positions='spiral'"), (BertConfig, dict(mask_rate=0.0), "mask_rate"),
    (BertConfig, dict(segments=-1), "segments=-1"), (BertConfig, dict(window=1.5), "window=1.5"),
    (BertConfig, dict(global_every=0), "global_every=0"), (BertConfig, dict(content_layers=3), "at most n_layers=2"),
    (BertConfig, dict(content_layers=-1), "content_layers=-1"), (BertConfig, dict(like_to_like=1.5), "like_to_like"),
    (BertConfig, dict(like_to_like=True, n_kv_heads=1), "n_kv_heads=1 and n_heads=2"), (BertConfig, dict(repeat_steps=-1), "repeat_steps"),
    (BertConfig, dict(positions="rotary", d_model=6), "even width"), (BertConfig, dict(next_sentence=2), "next_sentence"),
    (SentenceBertConfig, dict(pooling="sum"), "pooling='sum'"), (SentenceBertConfig, dict(margin=0), "margin=0"),
    (SentenceBertConfig, dict(scale=-1.0), "scale"), (BertClassifierConfig, dict(n_classes=0), "n_classes=0")])
def test_configs_that_cannot_be(config, change, words):
    with pytest.raises(ValueError, match=words):
        config(**{**SIZES, **change})


def test_a_model_without_next_sentence_has_no_opinion(rng):
    with pytest.raises(ValueError, match="without next_sentence"):
        Bert(BertConfig(**SIZES, next_sentence=False), rng).next_sentence_logits(np.array([[1, 2]]))


# ---- rows and batches


def test_rows_hold_their_passages(rng):
    passages = some_passages(rng, 30)
    follows = rng.random(30) < 0.5
    rows = passage_rows(passages, 13, *SPECIAL, follows)
    for (first, second), ids, segments, length, f in zip(passages, *rows[:3], follows):
        whole = [1, *first, 2, *second, 2]
        assert ids[:length].tolist() == whole and (ids[length:] == 0).all() and len(whole) == length
        assert segments[:length].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1) and (segments[length:] == 0).all()
    assert np.array_equal(rows.follows, follows)


def test_rows_that_are_too_long_lose_from_the_longer_passage():
    rows = passage_rows([(np.arange(4, 14), np.arange(4, 8))], 10, *SPECIAL)
    assert rows.ids.tolist() == [[1, 4, 5, 6, 2, 4, 5, 6, 7, 2]] or rows.ids.tolist() == [[1, 4, 5, 6, 7, 2, 4, 5, 6, 2]]
    assert passage_rows([(np.arange(4, 14), np.arange(4, 6))], 10, *SPECIAL).ids.tolist() == [[1, 4, 5, 6, 7, 8, 2, 4, 5, 2]]


@pytest.mark.parametrize("change, words", [
    (dict(passages=[]), "no passages"), (dict(passages=[()]), "one or two"), (dict(context_length=4), "room"),
    (dict(passages=[(np.zeros(0, int), np.array([5]))]), "empty"), (dict(padding=-1), "padding"),
    (dict(follows=[True]), "1 values of follows")])
def test_rows_that_cannot_be(change, words):
    settings = dict(passages=[(np.array([5]), np.array([6]))] * 2, context_length=8, padding=0, begin=1, separator=2)
    with pytest.raises(ValueError, match=words):
        passage_rows(**{**settings, **change})


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_stream_is_a_function_of_seed_and_step(dynamic, rng):
    rows = passage_rows(some_passages(rng, 40), 12, *SPECIAL, rng.random(40) < 0.5)
    one, other, third = (BertStream(rows, batch_size=8, seed=seed, dynamic=dynamic, **MASKS) for seed in (0, 0, 1))
    forwards, backwards = [one.batch(step) for step in range(12)], [other.batch(step) for step in reversed(range(12))][::-1]
    assert all(np.array_equal(a, b) for x, y in zip(forwards, backwards) for a, b in zip(x, y))
    assert any(not np.array_equal(forwards[0][0], third.batch(0)[0]) for _ in "x")
    assert all(batch.inputs.shape[1] == batch.lengths.max() and batch.tokens >= 8 for batch in forwards)

    def epoch(number):
        """Every row by its true ids: what was hidden in it."""
        hidden = {}
        for batch in forwards[5 * number:5 * number + 5]:
            for inputs, targets, length in zip(batch.inputs, batch.targets, batch.lengths):
                truth = np.where(targets == IGNORE_INDEX, inputs, targets)
                hidden[tuple(truth[:length].tolist())] = tuple(inputs[:length].tolist())
        return hidden

    assert epoch(0).keys() == epoch(1).keys() == {tuple(ids[:n].tolist()) for ids, n in zip(rows.ids, rows.lengths)}
    assert (epoch(0) == epoch(1)) == (not dynamic)


def test_consecutive_rows_hide_the_same_every_time(rng):
    rows = passage_rows(some_passages(rng, 10), 12, *SPECIAL)
    first, second = (consecutive_masked_rows(rows, batch_size=4, **MASKS) for _ in range(2))
    assert [len(batch.inputs) for batch in first] == [4, 4, 2]
    assert all(np.array_equal(a, b) for x, y in zip(first, second) for a, b in zip(x, y))
    pieces = first[0].split(3)
    assert [len(piece.inputs) for piece in pieces] == [2, 1, 1] and sum(piece.tokens for piece in pieces) == first[0].tokens


def test_passages_come_once_an_epoch(rng):
    rows = passage_rows([(ids,) for ids, _ in some_passages(rng, 11)], 12, *SPECIAL)
    labelled = LabelledRows(rows, np.arange(11))
    stream = PassageStream(labelled, batch_size=4, seed=3)
    for first in (0, 3):
        assert sorted(label for step in range(first, first + 3) for label in stream.batch(step).labels.tolist()) == list(range(11))
    triplets = Triplets(rows, rows, rows, np.arange(11))
    batch = triplets.take(np.array([3, 5]))
    assert batch.tokens == 2 and len(batch.split(5)) == 2 and np.array_equal(batch.anchors, batch.negatives)
    assert [len(batch.topics) for batch in consecutive_passages(triplets, 4)] == [4, 4, 3]
    assert [batch.labels.tolist() for batch in consecutive_passages(labelled, 4, n=2)] == [[0, 5]]
    with pytest.raises(ValueError, match="11 rows"):
        LabelledRows(rows, [1, 2])
    with pytest.raises(ValueError, match="as many of each"):
        Triplets(rows, rows, passage_rows([(np.array([5]),)], 12, *SPECIAL), np.arange(11))


# ---- what stands on the trunk


def test_a_trunk_is_taken_over(rng):
    bert = Bert(BertConfig(**SIZES, dropout=0.5), rng)
    classifier = BertClassifier(BertClassifierConfig(**{**trunk_switches(bert.config), "n_classes": 3}), np.random.default_rng(1))
    assert classifier.config.dropout == 0.0
    take_over_trunk(classifier, bert)
    ids = rng.integers(0, 20, (2, 7))
    assert np.array_equal(classifier.trunk(ids), bert(ids))
    assert np.array_equal(classifier.pooler.linear.weight.data, bert.pooler.linear.weight.data)
    bert.trunk.embedding.weight.data += 1
    assert not np.array_equal(classifier.trunk(ids), bert(ids)), "a copy, not the same arrays"
    smaller = SentenceBert(SentenceBertConfig(**{**SIZES, "n_layers": 1}), rng)
    with pytest.raises(ValueError, match="unexpected"):
        take_over_trunk(smaller, bert)


def test_one_encoder_called_three_times(rng):
    """Three calls of one encoder give the gradients of three encoders with the same weights, added up."""
    model = SentenceBert(SentenceBertConfig(**SIZES, margin=9.0), rng)
    towers = [model.replica() for _ in range(3)]
    parts = [rng.integers(4, 20, (5, 8)) for _ in range(3)]
    lengths = np.full(5, 8)
    loss, saved = model.loss((parts[0], lengths, parts[1], lengths, parts[2], lengths, np.zeros(5, int)))
    model.loss_backward(saved)
    outputs = [tower.forward(ids, lengths) for tower, ids in zip(towers, parts)]
    expected, saved_loss = triplet_loss(*(y for y, _ in outputs), margin=9.0)
    assert loss == expected
    for tower, (_, saved_tower), dy in zip(towers, outputs, triplet_loss_backward(1.0, saved_loss)):
        tower.backward(dy, saved_tower)
    for ours, *theirs in zip(model.parameters(), *(tower.parameters() for tower in towers)):
        np.testing.assert_allclose(ours.grad, sum(p.grad for p in theirs), rtol=1e-10, atol=1e-14)


def test_positives_of_the_same_topic_are_no_wrong_answers(rng):
    model = SentenceBert(SentenceBertConfig(**SIZES, objective="in_batch", scale=5.0), rng)
    a, p, lengths = rng.integers(4, 20, (3, 8)), rng.integers(4, 20, (3, 8)), np.full(3, 8)
    z = 5 * cosine_similarity(model(a), model(p))[0]
    alone = [model.loss((a, lengths, p, lengths, p, lengths, np.array(topics)))[0] for topics in ([0, 1, 2], [0, 0, 0], [0, 0, 1])]
    np.testing.assert_allclose(alone[0], np.mean([np.log(np.exp(z[i]).sum()) - z[i, i] for i in range(3)]), rtol=1e-12)
    assert alone[1] == 0
    keep = [[0, 2], [1, 2], [0, 1, 2]]
    np.testing.assert_allclose(alone[2], np.mean([np.log(np.exp(z[i, keep[i]]).sum()) - z[i, i] for i in range(3)]), rtol=1e-12)


def test_a_vector_of_zeros_has_no_direction():
    s, saved = cosine_similarity(np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([[1.0, 1.0]]))
    np.testing.assert_allclose(s, [[0.0], [0.5 ** 0.5]])
    da, db = cosine_similarity_backward(np.ones((2, 1)), saved)
    assert np.isfinite(da).all() and (da[0] == 0).all() and np.isfinite(db).all()
    same = np.ones((2, 3))
    loss, saved = triplet_loss(same, same, same)
    assert loss == 1 and all((gradient == 0).all() for gradient in triplet_loss_backward(1.0, saved))


@pytest.mark.parametrize("call, error, words", [
    (lambda: cosine_similarity(np.ones((2, 3)), np.ones((2, 4))), ValueError, "C=3"),
    (lambda: cosine_similarity(np.ones(3), np.ones((2, 3))), ValueError, "(N, C)"),
    (lambda: cosine_similarity(np.ones((2, 3)), np.ones((2, 3), np.float32)), TypeError, "float64"),
    (lambda: triplet_loss(np.ones((2, 3)), np.ones((3, 3)), np.ones((2, 3))), ValueError, "B=2"),
    (lambda: triplet_loss(*np.ones((3, 2, 3)), margin=0), ValueError, "margin=0"),
    (lambda: triplet_loss(*np.ones((3, 0, 3))), ValueError, "no triplet")])
def test_vectors_that_do_not_fit(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
