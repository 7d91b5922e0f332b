"""The classifier on a decoder: which token it reads, its two losses, and transformers' version."""

import numpy as np
import pytest

from numformer.models import (
    Decoder, DecoderClassifier, DecoderClassifierConfig, DecoderConfig, backbone_options,
    load_pretrained_backbone)
from numformer.models.decoder.classifier import next_tokens
from numformer.models.transformer import has_targets

SIZES = dict(vocab_size=20, context_length=12, n_layers=2, n_heads=2, d_model=8, dtype="float64")
LENGTHS = np.array([4, 7])
LABELS = np.array([2, 0])


@pytest.fixture
def model(rng):
    return DecoderClassifier(DecoderClassifierConfig(**SIZES, n_classes=3), rng)


@pytest.fixture
def ids(rng):
    return rng.integers(0, 20, (2, 7))


def test_it_reads_the_last_token_and_no_padding(model, ids):
    logits = model(ids, LENGTHS)
    assert np.allclose(logits[:1], model(ids[:1, :4]), rtol=0, atol=1e-14)
    assert np.allclose(logits[1:], model(ids[1:]), rtol=0, atol=1e-14)
    other = ids.copy()
    other[0, 4:] = 0                                                  # padding
    assert np.array_equal(model(other, LENGTHS), logits)
    other[0, 0] += 1 if ids[0, 0] < 19 else -1                        # the whole text matters
    assert not np.allclose(model(other, LENGTHS)[0], logits[0])


def test_the_loss_is_the_sum_of_both(model, ids):
    batch = ids, LENGTHS, LABELS
    classes = model.loss(batch)[0]
    model.lm_weight = 0.5
    logits = model.backbone(ids)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    each = [-log_p[b, t, ids[b, t + 1]] for b in range(2) for t in range(LENGTHS[b] - 1)]
    assert np.isclose(model.loss(batch)[0], classes + 0.5 * np.mean(each), rtol=1e-14)
    assert np.isclose(model.evaluation_loss(batch), classes, rtol=1e-14)


def test_losses_of_experts_are_added_in_training(ids, rng):
    config = DecoderClassifierConfig(**SIZES, n_classes=3, n_experts=4, balance_weight=0.5)
    model, batch = DecoderClassifier(config, rng), (ids, LENGTHS, LABELS)
    _, saved_backbone = model.backbone.features(ids)
    auxiliary = model.backbone.auxiliary_loss(saved_backbone)
    assert auxiliary > 0.1
    expected = model.evaluation_loss(batch) + auxiliary
    assert np.isclose(model.loss(batch)[0], expected, rtol=1e-13)
    logits, saved = model.forward(ids, LENGTHS)
    gradients = []
    for given in ({}, dict(dauxiliary=0.0), dict(dauxiliary=1.0)):
        model.zero_grad()
        model.backward(np.ones_like(logits), saved, **given)
        gradients.append(model.backbone.blocks[0].feedforward.router.weight.grad.copy())
    assert np.array_equal(gradients[0], gradients[1])
    assert np.abs(gradients[2] - gradients[1]).max() > 1e-4


def test_a_batch_without_a_label_counts_as_nothing_with_experts_too(ids, rng):
    config = DecoderClassifierConfig(**SIZES, n_classes=3, n_experts=3)
    model, unknown = DecoderClassifier(config, rng), (ids, LENGTHS, np.array([-100, -100]))
    assert model.loss_counts(unknown) == (0, 0, 2) and not has_targets(model, unknown)
    with pytest.raises(ValueError, match="every target is ignore_index"):
        model.loss(unknown)
    assert model.loss_counts((ids, LENGTHS, np.array([-100, 1]))) == (1, 0, 2)
    model.lm_weight = 0.5
    assert model.loss_counts(unknown) == (0, sum(LENGTHS) - 2, 2)


def test_targets_end_with_the_text():
    targets = next_tokens(np.array([[3, 4, 5, 0], [6, 7, 8, 9]]), np.array([2, 3]))
    assert targets.tolist() == [[4, 5, -100, -100], [7, 8, 9, -100]]


def test_a_decoder_is_its_pretrained_backbone(ids, rng):
    decoder = Decoder(DecoderConfig(**SIZES, dropout=0.5), rng)
    config = DecoderClassifierConfig(**{**backbone_options(decoder.config), "context_length": 7},
                                     n_classes=3)
    model = DecoderClassifier(config, np.random.default_rng(1))
    assert config.dropout == 0.0
    load_pretrained_backbone(model, decoder)                         # its first seven positions
    assert np.array_equal(model.backbone(ids), decoder(ids))
    decoder.embedding.weight.data += 1
    assert not np.array_equal(model.backbone(ids), decoder(ids)), "a copy, not the same arrays"
    wider = DecoderConfig(**{**SIZES, "d_model": 4})
    with pytest.raises(ValueError, match="shape"):
        load_pretrained_backbone(model, Decoder(wider, rng))
    rotary = DecoderConfig(**SIZES, positions="rotary")
    with pytest.raises(ValueError, match="positions.weight"):
        load_pretrained_backbone(model, Decoder(rotary, rng))


def test_transformers_gives_the_same_logits_and_gradients(ids, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from numformer.interop import load

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=20, n_positions=12, n_embd=8, n_layer=2, n_head=2, num_labels=3, pad_token_id=0,
        bos_token_id=1, eos_token_id=1, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
    theirs = transformers.GPT2ForSequenceClassification(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
    decoder = transformers.GPT2LMHeadModel(config).double()
    decoder.transformer.load_state_dict(theirs.transformer.state_dict())
    decoder.save_pretrained(tmp_path)
    pretrained, _ = load(tmp_path, dtype="float64")
    ours = DecoderClassifier(DecoderClassifierConfig(
        **backbone_options(pretrained.config), n_classes=3), np.random.default_rng(0))
    load_pretrained_backbone(ours, pretrained)
    ours.classes.weight.data[:] = theirs.score.weight.detach().numpy().T
    ours.classes.bias.data[:] = 0                                     # theirs has none
    ids = np.where(np.arange(7) < LENGTHS[:, None], 1 + ids % 19, 0)

    logits = theirs(torch.tensor(ids), attention_mask=torch.tensor(ids != 0)).logits
    assert np.allclose(ours(ids, LENGTHS), logits.detach().numpy(), rtol=0, atol=1e-10)
    torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS)).backward()
    loss, saved = ours.loss((ids, LENGTHS, LABELS))
    ours.loss_backward(saved)
    assert np.allclose(ours.classes.weight.grad, theirs.score.weight.grad.numpy().T,
                       rtol=0, atol=1e-10)
    assert np.allclose(ours.backbone.embedding.weight.grad,
                       theirs.transformer.wte.weight.grad.numpy(), rtol=0, atol=1e-10)
