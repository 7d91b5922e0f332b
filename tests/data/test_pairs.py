"""Pairs of texts in batches: what a row holds, and in which order rows come."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.data import Epochs, NoiseStream, PairBatch, PairStream, consecutive_pairs, pair_batch

SPECIAL = {"padding": 0, "bos": 1, "eos": 2}


def some_pairs(rng, n, longest=20):
    return [(rng.integers(3, 50, rng.integers(1, longest + 1)),
             rng.integers(3, 50, rng.integers(0, longest + 1))) for _ in range(n)]


def unpack(batch):
    """The pairs of a batch, read from all of its arrays, which must agree."""
    pairs = []
    for inputs, length, outputs, targets in zip(*batch):
        count = int((targets != IGNORE_INDEX).sum())
        assert (inputs[length:] == 0).all() and (outputs[count:] == 0).all()
        assert (targets[count:] == IGNORE_INDEX).all()
        assert outputs[0] == 1 and targets[count - 1] == 2
        assert np.array_equal(outputs[1:count], targets[: count - 1])
        pairs.append((tuple(inputs[:length].tolist()), tuple(targets[: count - 1].tolist())))
    return pairs


def as_tuples(pairs):
    return [(tuple(map(int, source)), tuple(map(int, target))) for source, target in pairs]


def test_a_batch_holds_its_pairs_and_no_more_padding_than_it_needs(rng):
    pairs = some_pairs(rng, 30)
    batch = pair_batch(pairs, **SPECIAL)
    assert unpack(batch) == as_tuples(pairs)
    assert batch.inputs.shape == (30, max(len(source) for source, _ in pairs))
    assert batch.lengths.max() == batch.inputs.shape[1]
    assert (batch.outputs.shape == batch.targets.shape
            == (30, 1 + max(len(target) for _, target in pairs)))
    assert batch.n_targets == sum(len(target) + 1 for _, target in pairs)
    assert all(array.dtype == np.int64 for array in batch)


def test_split_keeps_all_rows_in_their_order_and_no_more_padding_than_they_need(rng):
    pairs = some_pairs(rng, 7)
    batch = pair_batch(pairs, **SPECIAL)
    for parts in (1, 2, 3, 7, 20):
        pieces = batch.split(parts)
        assert len(pieces) == min(parts, 7)
        assert all(isinstance(piece, PairBatch) and piece.n_targets for piece in pieces)
        sizes = [len(piece.inputs) for piece in pieces]
        assert max(sizes) - min(sizes) <= 1
        assert [pair for piece in pieces for pair in unpack(piece)] == as_tuples(pairs)
        for piece in pieces:
            assert piece.lengths.max() == piece.inputs.shape[1]
            assert (piece.targets != IGNORE_INDEX).any(axis=0).all()
            assert piece.outputs.shape == piece.targets.shape


def test_a_stream_is_a_function_of_seed_and_step(rng):
    pairs = some_pairs(rng, 50)
    streams = [PairStream(pairs, 8, seed, **SPECIAL) for seed in (0, 0, 1)]
    forwards = [unpack(streams[0].batch(step)) for step in range(30)]
    backwards = [unpack(streams[1].batch(step)) for step in reversed(range(30))]
    assert forwards == backwards[::-1] != [unpack(streams[2].batch(step)) for step in range(30)]


@pytest.mark.parametrize("n, batch_size", [(50, 8), (7, 7), (3, 10), (64, 8), (700, 4)])
def test_an_epoch_holds_every_pair_once_and_the_next_is_another(n, batch_size, rng):
    pairs = [([3 + k] * rng.integers(1, 9), [3 + k]) for k in range(n)]
    stream, steps = PairStream(pairs, batch_size, 0, **SPECIAL), -(-n // batch_size)
    epochs = [[unpack(stream.batch(epoch * steps + step)) for step in range(steps)]
              for epoch in range(2)]
    for epoch in epochs:
        assert sorted(pair for batch in epoch for pair in batch) == sorted(as_tuples(pairs))
        assert sorted(map(len, epoch))[1:] == [batch_size if steps > 1 else n] * (steps - 1)
    if n > batch_size:
        # not only in another order
        assert epochs[0] != epochs[1]
        assert set(map(frozenset, epochs[0])) != set(map(frozenset, epochs[1]))


def test_a_pool_of_one_leaves_lengths_mixed_and_sorted(rng):
    lengths = rng.integers(1, 1000, 6400)
    epochs = Epochs(6400, 64, 0, lengths, pool=1)
    batches = [lengths[epochs.rows(step)[1]] for step in range(100)]
    assert all((np.diff(batch) <= 0).all() for batch in batches)
    means, spread = np.array([batch.mean() for batch in batches]), lengths.std() / 8
    assert abs(means - lengths.mean()).max() < 5 * spread and means.std() > spread / 2
    assert sorted(np.concatenate(batches)) == sorted(lengths)


def test_pairs_of_similar_length_share_a_batch(rng):
    pairs = some_pairs(rng, 2000, longest=60)
    stream = PairStream(pairs, 16, 0, **SPECIAL)
    batches = [stream.batch(step) for step in range(125)]
    padding = sum(batch.inputs.size - batch.lengths.sum()
                  for batch in batches) / sum(batch.inputs.size for batch in batches)
    shuffled = [pair_batch([pairs[i] for i in rng.choice(2000, 16)], **SPECIAL) for _ in range(125)]
    loose = sum(batch.inputs.size - batch.lengths.sum()
                for batch in shuffled) / sum(batch.inputs.size for batch in shuffled)
    assert padding < 0.04 < 0.4 < loose
    # but short ones do not come first
    means = np.array([batch.lengths.mean() for batch in batches])
    assert abs(np.corrcoef(np.arange(125), means)[0, 1]) < 0.3


def test_consecutive_pairs_keep_their_order(rng):
    pairs = some_pairs(rng, 23)
    for batch_size in (1, 5, 23, 100):
        batches = consecutive_pairs(pairs, batch_size, **SPECIAL)
        assert [pair for batch in batches for pair in unpack(batch)] == as_tuples(pairs)
        assert len(batches) == -(-23 // batch_size)


def test_noise_is_new_in_every_epoch_and_does_not_depend_on_the_batch():
    texts = [np.arange(3, 3 + n) for n in range(5, 25)]

    def epoch(batch_size, number, seed=0):
        stream = NoiseStream(texts, lambda text, rng: (rng.permutation(text), text), batch_size,
                             seed, **SPECIAL)
        steps = -(-20 // batch_size)
        batches = [stream.batch(number * steps + step) for step in range(steps)]
        return sorted(pair for batch in batches for pair in unpack(batch))

    assert epoch(4, 0) == epoch(7, 0) == epoch(20, 0)
    assert ([target for _, target in sorted(epoch(4, 0), key=lambda pair: len(pair[1]))]
            == [tuple(text.tolist()) for text in texts])
    assert not set(epoch(4, 0)) & set(epoch(4, 1)) and epoch(4, 0, seed=1) != epoch(4, 0)


def test_wrong_inputs_replace_tokens_of_the_decoder_alone(rng):
    texts = [rng.integers(3, 50, n) for n in rng.integers(1, 40, 200)]
    true, corrupted, again = (NoiseStream(texts, lambda text, rng: (text, text), 200, 0, **SPECIAL,
                                        wrong_inputs=rate).batch(7)
                            for rate in (0.0, 0.2, 0.2))
    assert all(np.array_equal(one, other) for one, other in zip(corrupted, again))
    for name in ("inputs", "lengths", "targets"):
        assert np.array_equal(getattr(true, name), getattr(corrupted, name))
    wrong = true.outputs != corrupted.outputs
    read = np.arange(true.outputs.shape[1]) <= true.lengths[:, None]
    read[:, 0] = False
    # one in 47 is replaced by itself
    assert not wrong[~read].any() and abs(wrong.sum() / read.sum() - 0.2 * 46 / 47) < 0.02
    assert corrupted.outputs[read].min() >= 3


def test_noise_streams_take_lists_of_sentences():
    documents = [[np.array([3]), np.array([4, 5])], [np.array([6])]]
    stream = NoiseStream(documents, lambda text, rng: (text[0], np.concatenate(text)), 2, 0,
                         **SPECIAL)
    assert sorted(unpack(stream.batch(0))) == [((3,), (3, 4, 5)), ((6,), (6,))]


ONE = [([3], [4])]


@pytest.mark.parametrize("make", [
    lambda pairs, **special: pair_batch(pairs, **special),
    lambda pairs, **special: PairStream(pairs, 2, 0, **special),
    lambda pairs, **special: consecutive_pairs(pairs, 2, **special)])
@pytest.mark.parametrize("pairs, special, error, words", [
    ([], {}, ValueError, "there are no pairs"),
    ([*ONE, ([], [4])], {}, ValueError, "source of pair 1 is empty"),
    ([([-1], [4])], {}, ValueError, "hold -1"),
    ([([3], [4.0])], {}, TypeError, "target of pair 0 must be an array of integers"),
    ([([[3]], [4])], {}, ValueError, "shapes"), (ONE, {"bos": -1}, ValueError, "bos=-1"),
    (ONE, {"eos": None}, ValueError, "eos=None")])
def test_bad_pairs_are_named(make, pairs, special, error, words):
    with pytest.raises(error, match=words):
        make(pairs, **SPECIAL | special)


@pytest.mark.parametrize("call, error, words", [
    (lambda: PairStream(ONE, 0, 0, **SPECIAL), ValueError, "batch_size=0"),
    (lambda: PairStream(ONE, 1, -1, **SPECIAL), ValueError, "seed=-1"),
    (lambda: PairStream(ONE, 1, 0, **SPECIAL).batch(-1), ValueError, "step=-1"),
    (lambda: Epochs(0, 1, 0), ValueError, "no examples"),
    (lambda: Epochs(1, 1, 0, pool=0), ValueError, "pool=0"),
    (lambda: consecutive_pairs(ONE, 0, **SPECIAL), ValueError, "batch_size=0"),
    (lambda: NoiseStream([], None, 1, 0, **SPECIAL), ValueError, "no examples"),
    (lambda: NoiseStream([np.array([3])], None, 1, 0, **SPECIAL, wrong_inputs=1.0), ValueError,
     "wrong_inputs=1.0"),
    (lambda: NoiseStream([[3, 4]], None, 1, 0, **SPECIAL), TypeError, "array of ids")])
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_validation_leaves_label_smoothing_out(rng):
    from numformer.functional import cross_entropy
    from numformer.models import EncoderDecoder, EncoderDecoderConfig, Seq2Seq, Seq2SeqConfig
    from numformer.training import mean_loss

    batch = pair_batch([([5, 6], [7]), ([8], [4, 3])], padding=0, bos=1, eos=2)
    sizes = dict(vocab_size=9, d_model=8)
    for model in (Seq2Seq(Seq2SeqConfig(**sizes, d_hidden=6), rng),
                  EncoderDecoder(EncoderDecoderConfig(**sizes, context_length=6, n_layers=1,
                                                      n_heads=2), rng)):
        model.label_smoothing = 0.3
        # all logits of a new model are alike: then smoothing would make no difference
        for parameter in model.parameters():
            parameter.data += rng.standard_normal(parameter.data.shape).astype(np.float32)
        plain = cross_entropy(model(batch.inputs, batch.lengths, batch.outputs), batch.targets)[0]
        assert mean_loss(model, [batch]) == pytest.approx(float(plain))
        assert model.loss(batch)[0] != pytest.approx(float(plain), rel=1e-3)
