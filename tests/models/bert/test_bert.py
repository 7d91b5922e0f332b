"""BERT's encoder and its pre-training: padding, patterns, the loss, and published sizes."""

import numpy as np
import pytest

from numformer.analysis import attention_by_layer, count
from numformer.data import Batch, MaskedStream, passage_rows
from numformer.functional import IGNORE_INDEX
from numformer.layers import Embedding, LayerNorm
from numformer.models import (
    BERT_CONFIGS, Bert, BertClassifier, BertClassifierConfig, BertConfig, BertEncoder,
    BertEncoderConfig, SentenceBertConfig)
from numformer.models.bert.model import MaskedTokenHead

SIZES = dict(vocab_size=20, context_length=12, n_layers=2, n_heads=2, d_model=8, dtype="float64")
MODERN = dict(segments=0, norm_first=True, positions="rotary", feedforward="geglu", bias=False,
              sliding_window=3, layer_types="full_attention,sliding_attention,sliding_attention")
SPECIAL, MASKS = (0, 1, 2), dict(special=[0, 1, 2, 3], vocab_size=20, mask_id=3)
PUBLISHED = {"bert-base": 110, "bert-large": 340, "roberta-base": 125, "roberta-large": 355,
             "modernbert-base": 149, "modernbert-large": 395}         # in millions


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name):
    """Within 1%; but BERT large, printed with two digits in its paper: 336 M is 340 M to the
    nearest ten.
    """
    found = count(BERT_CONFIGS[name])["parameters"] / 1e6
    if name == "bert-large":
        assert round(found, -1) == 340
    else:
        assert abs(found / PUBLISHED[name] - 1) < 0.01


def test_counts_of_the_published_checkpoints():
    """The bare encoder with its pooler, and all that pre-training has: as the published
    implementation builds them. ModernBERT has no pooler.
    """
    for name, all_of_it in (("modernbert-base", 149_655_232), ("modernbert-large", 395_881_664)):
        model = Bert(BERT_CONFIGS[name], None)
        assert sum(p.data.size for p in model.parameters()) == all_of_it
        assert count(BERT_CONFIGS[name])["parameters"] == all_of_it
    for name, bare, all_of_it in (("bert-base", 109_482_240, 110_106_428),
                                  ("bert-large", 335_141_888, 336_226_108)):
        model = Bert(BERT_CONFIGS[name], None)
        parts = [*model.backbone.parameters(), *model.pooler.parameters()]
        assert sum(p.data.size for p in parts) == bare
        assert sum(p.data.size for p in model.parameters()) == all_of_it
        assert count(BERT_CONFIGS[name])["parameters"] == all_of_it


def test_local_layers_cost_less():
    config = BertConfig(**{**SIZES, **MODERN, "context_length": 100, "n_layers": 3})
    wide = BertConfig(**{**SIZES, **MODERN, "context_length": 100, "n_layers": 3,
                        "sliding_window": 0})
    keys = 5 - (1 + 2) * 2 / 100  # a window of 5 is cut at both ends of the text
    saved = count(wide)["flops_per_token"] - count(config)["flops_per_token"]
    assert saved == round(2 * 4 * 8 * (100 - keys))
    assert count(config)["kv_bytes_per_token"] == 0


@pytest.mark.parametrize("options", [
    {}, MODERN, dict(positions="alibi", norm_first=True), dict(positions="sinusoidal")], ids=str)
def test_padding_does_not_change_the_vectors_of_tokens(options, rng):
    backbone = BertEncoder(BertEncoderConfig(**{**SIZES, **options}), rng)
    ids, lengths = rng.integers(0, 20, (3, 9)), np.array([9, 4, 6])
    y = backbone(ids, lengths=lengths)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(y[row, :length], backbone(ids[row:row + 1, :length])[0],
                                   rtol=1e-12, atol=1e-13)
    other = ids.copy()
    other[1, 4:] = 7
    assert np.array_equal(backbone(other, lengths=lengths)[1, :4], y[1, :4])


def test_every_vector_depends_on_tokens_of_both_sides(rng):
    backbone = BertEncoder(BertEncoderConfig(**SIZES), rng)
    ids = rng.integers(0, 20, (1, 9))
    for place in (0, 8):
        other = ids.copy()
        other[0, place] = (other[0, place] + 1) % 20
        assert (backbone(other) != backbone(ids)).any(axis=-1).all()


def test_a_classifier_reads_the_first_vector_and_through_it_the_whole_text(rng):
    model = BertClassifier(BertClassifierConfig(**SIZES, n_classes=3), rng)
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    h, ids = rng.standard_normal((1, 9, 8)), rng.integers(0, 20, (1, 9))
    assert np.array_equal(model.pooler(h), model.pooler(h[:, :1]))
    assert np.array_equal(model(ids), model.classes(model.pooler(model.backbone(ids))))
    for place in range(9):
        other = ids.copy()
        other[0, place] = (other[0, place] + 1) % 20
        assert (model(other) != model(ids)).any()


def test_local_and_global_layers_alternate(rng):
    config = BertEncoderConfig(**{**SIZES, **MODERN, "n_layers": 4})
    branches = [block.branches["attention"] for block in BertEncoder(config, rng).encoder.blocks]
    windows = [getattr(branch, "window", None) for branch in branches]
    assert windows == [None, (2, 2), (2, 2), None]
    backbone = BertEncoder(BertEncoderConfig(**{**SIZES, **MODERN}), rng)
    weights = [*attention_by_layer(backbone, rng.integers(0, 20, (1, 9))).values()]
    assert (weights[0] > 0).all() and (weights[1][0, 0, 0, 3:] == 0).all()


def test_local_layers_may_have_another_rotary_base(rng):
    options = {**SIZES, **MODERN, "n_layers": 4, "rotary_base": 500.0}

    def bases(**more):
        blocks = BertEncoder(BertEncoderConfig(**options | more), rng).encoder.blocks
        return [block.attention.positions.base for block in blocks]

    assert bases() == [500.0] * 4
    assert bases(local_rotary_base=20.0) == [500.0, 20.0, 20.0, 500.0]
    assert bases(local_rotary_base=20.0, layer_types="full_attention,sliding_attention") == [
        500.0, 20.0] * 2
    assert bases(local_rotary_base=20.0, sliding_window=0) == [500.0] * 4


def test_only_the_first_attention_may_have_no_norm(rng):
    options = dict(SIZES, **MODERN)
    with_norm, without = (BertEncoder(BertEncoderConfig(**options, first_attention_norm=which), rng)
                          for which in (True, False))
    missing = with_norm.state_dict().keys() - without.state_dict().keys()
    assert missing == {"encoder.blocks.0.norm1.weight"}
    assert without.state_dict().keys() < with_norm.state_dict().keys()
    ids, first = rng.integers(0, 20, (1, 5)), without.encoder.blocks[0]
    x = without.norm(without.embedding(ids))
    h = x + first.attention(x)
    np.testing.assert_allclose(first(x), h + first.feedforward(first.norm2(h)), rtol=1e-12)


def test_a_masked_token_head_without_biases_keeps_that_of_the_logits(rng):
    model = Bert(BertConfig(**SIZES, **MODERN, head_bias=False), rng)
    assert [name for name, _ in model.head.named_parameters()] == [
        name for name, _ in Bert(BertConfig(**SIZES, **MODERN), rng).head.named_parameters()
        if name not in ("linear.bias", "norm.bias")]
    assert model.head.bias.data.shape == (20,)


def test_a_config_of_before_these_options_loads_as_it_was():
    facts = BertConfig(**SIZES, **MODERN).as_dict()
    for name in ("local_rotary_base", "first_attention_norm", "head_bias"):
        del facts[name]
    assert BertConfig.from_dict(facts) == BertConfig(**SIZES, **MODERN)
    facts |= dict(local_rotary_base=20, first_attention_norm=False)
    assert BertConfig.from_dict(facts).local_rotary_base == 20
    for wrong in ("20", True, [20.0]):
        with pytest.raises(ValueError, match="local_rotary_base="):
            BertConfig.from_dict(facts | dict(local_rotary_base=wrong))


def test_vectors_depend_on_segments_and_positions(rng):
    backbone = BertEncoder(BertEncoderConfig(**SIZES), rng)
    ids = np.array([[1, 5, 5, 2]])
    assert np.array_equal(backbone(ids), backbone(ids, np.zeros((1, 4), int)))
    assert (backbone(ids, np.array([[0, 0, 1, 1]])) != backbone(ids)).any()
    assert (backbone(ids)[0, 1] != backbone(ids)[0, 2]).any()
    whole = rng.integers(0, 20, (1, 12))                      # as long as the context
    first = backbone.embedding(whole) + backbone.positions.weight.data
    np.testing.assert_array_equal(backbone.positions(backbone.embedding(whole)), first)
    assert backbone(whole).shape == (1, 12, 8)
    bare = BertEncoder(BertEncoderConfig(**{**SIZES, "positions": "none", "segments": 0}), rng)
    np.testing.assert_allclose(bare(ids[:, ::-1]), bare(ids)[:, ::-1], rtol=1e-12, atol=1e-14)


def test_the_loss_is_that_of_all_logits_at_the_masked_positions(rng):
    """The head runs at the hidden places alone; the next-sentence loss is added."""
    model = Bert(BertConfig(**SIZES), rng)
    passages = [(rng.integers(4, 20, 4), rng.integers(4, 20, 3)) for _ in range(5)]
    rows = passage_rows(passages, 12, *SPECIAL, [True, False, True, True, False])
    batch = MaskedStream(rows, batch_size=5, seed=0, **MASKS).batch(0)
    log_p = np.log(np.exp(model.masked_logits(batch.inputs, batch.segments, batch.lengths)))
    log_p = log_p - np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
    b, t = np.nonzero(batch.targets != IGNORE_INDEX)
    verdict = model.next_sentence_logits(batch.inputs, batch.segments, batch.lengths)
    verdict = verdict - np.log(np.exp(verdict).sum(axis=-1, keepdims=True))
    expected = -log_p[b, t, batch.targets[b, t]].mean()
    expected -= verdict[np.arange(5), batch.follows].mean()
    loss, saved = model.loss(batch)
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    model.loss_backward(saved)
    once = [parameter.grad.copy() for parameter in model.parameters()]
    model.loss_backward(saved, 1.0)
    for parameter, gradient in zip(model.parameters(), once):
        np.testing.assert_allclose(parameter.grad, 2 * gradient, rtol=1e-12)


def test_defaults_of_the_masked_token_head(rng):
    head = MaskedTokenHead(Embedding(50, 300, rng).weight, rng)
    assert abs(head.linear.weight.data.std() / 0.02 - 1) < 0.02, "as all matrices of BERT"
    assert head.norm.epsilon == LayerNorm(300).epsilon == 1e-5
    assert head.bias.data.shape == (50,) and not head.bias.data.any()


@pytest.mark.parametrize("change, error, words", [
    (dict(targets=np.array([[20, 0]])), ValueError, "0 .. 19"),
    (dict(targets=np.array([[5]])), ValueError, "the shape of inputs"),
    (dict(targets=np.array([[1.0, 2.0]])), TypeError, "integers"),
    (dict(lengths=np.array([3])), ValueError, "1 .. T=2"),
    (dict(lengths=[2]), ValueError, "lengths"),
    (dict(segments=np.array([[0]])), ValueError, "segments"),
    (dict(segments=np.array([[0, 2]])), ValueError, "0 .. 1"),
    (dict(follows=np.array([2])), ValueError, "0 .. 1"),
    (dict(targets=np.full((1, 2), IGNORE_INDEX), follows=np.array([IGNORE_INDEX])), ValueError,
     "every target is ignore_index")])
def test_errors_name_what_does_not_fit_in_a_batch(change, error, words, rng):
    arrays = dict(inputs=np.array([[1, 5]]), targets=np.array([[-100, 6]]),
                  segments=np.array([[0, 0]]), lengths=np.array([2]),
                  follows=np.array([1]))
    model = Bert(BertConfig(**SIZES), rng)
    model.loss(Batch(**arrays))
    with pytest.raises(error) as caught:
        model.loss(Batch(**arrays | change))
    assert words in str(caught.value)


@pytest.mark.parametrize("config, change, words", [
    (BertConfig, dict(positions="spiral"), "positions='spiral'"),
    (BertConfig, dict(segments=-1), "segments=-1"),
    (BertConfig, dict(sliding_window=1.5), "sliding_window=1.5"),
    (BertConfig, dict(layer_types="all"), "layer_types='all'"),
    (BertConfig, dict(positions="rotary", d_model=6), "even width"),
    (BertConfig, dict(next_sentence=2), "next_sentence"),
    (BertConfig, dict(head_bias="no"), "head_bias='no'"),
    (BertConfig, dict(local_rotary_base=0.5), "local_rotary_base=0.5"),
    (BertConfig, dict(first_attention_norm=False), "first_attention_norm=False needs norm_first"),
    (SentenceBertConfig, dict(pooling="sum"), "pooling='sum'"),
    (SentenceBertConfig, dict(margin=0), "margin=0"),
    (SentenceBertConfig, dict(scale=-1.0), "scale"),
    (BertClassifierConfig, dict(n_classes=0), "n_classes=0")])
def test_options_out_of_range_are_refused(config, change, words):
    with pytest.raises(ValueError, match=words):
        config(**{**SIZES, **change})


def test_next_sentence_logits_need_the_next_sentence_head(rng):
    with pytest.raises(ValueError, match="without next_sentence"):
        Bert(BertConfig(**SIZES, next_sentence=False), rng).next_sentence_logits(np.array([[1, 2]]))
