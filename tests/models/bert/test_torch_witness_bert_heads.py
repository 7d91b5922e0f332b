"""The second witness: transformers' heads on BERT with the same weights, and spans by search."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.models import (
    BertClassifier, BertClassifierConfig, BertSpanClassifier, BertSpanClassifierConfig,
    BertTokenClassifier, BertTokenClassifierConfig, best_spans)

SIZES = dict(vocab_size=23, context_length=10, n_layers=2, n_heads=2, d_model=8, d_hidden=12,
             dtype="float64")
NAMES = {"BertClassifier": "BertForSequenceClassification",
         "BertTokenClassifier": "BertForTokenClassification",
         "BertSpanClassifier": "BertForQuestionAnswering"}


def witness(ours):
    """The model of transformers with the weights of ours."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    theirs = getattr(transformers, NAMES[type(ours).__name__])(transformers.BertConfig(
        vocab_size=23, max_position_embeddings=10, num_hidden_layers=2, num_attention_heads=2,
        hidden_size=8, intermediate_size=12, hidden_dropout_prob=0.0, num_labels=getattr(
            ours.config, "n_classes", 2), attention_probs_dropout_prob=0.0,
        layer_norm_eps=ours.config.epsilon, attn_implementation="eager")).double()
    for mine, other in pairs_of(ours, theirs):
        other.data = torch.tensor(mine)
    size = sum(p.data.size for p in ours.parameters())
    unused = 72 * hasattr(theirs.bert.pooler, "dense") * (not hasattr(ours, "pooler"))
    assert sum(p.numel() for p in theirs.parameters()) == size + unused
    return torch, theirs


def pairs_of(ours, theirs, what="data"):
    """(our array, their parameter) all over the model; `what` is "data" or "grad"."""
    def linear(mine, other):
        yield np.ascontiguousarray(getattr(mine.weight, what).T), other.weight
        yield getattr(mine.bias, what), other.bias

    def norm(mine, other):
        yield getattr(mine.weight, what), other.weight
        yield getattr(mine.bias, what), other.bias

    embeddings = theirs.bert.embeddings
    yield getattr(ours.backbone.embedding.weight, what), embeddings.word_embeddings.weight
    yield getattr(ours.backbone.positions.weight, what), embeddings.position_embeddings.weight
    yield getattr(ours.backbone.segments.weight, what), embeddings.token_type_embeddings.weight
    yield from norm(ours.backbone.norm, embeddings.LayerNorm)
    for mine, other in zip(ours.backbone.encoder.blocks, theirs.bert.encoder.layer, strict=True):
        a, b = mine.attention, other.attention
        for one, two in ((a.query, b.self.query), (a.key, b.self.key), (a.value, b.self.value),
                         (a.output, b.output.dense),
                         (mine.feedforward.hidden, other.intermediate.dense),
                         (mine.feedforward.output, other.output.dense)):
            yield from linear(one, two)
        yield from norm(mine.norm1, other.attention.output.LayerNorm)
        yield from norm(mine.norm2, other.output.LayerNorm)
    if hasattr(ours, "pooler"):
        yield from linear(ours.pooler.linear, theirs.bert.pooler.dense)
    yield from linear(ours.ends if hasattr(ours, "ends") else ours.classes,
                      theirs.qa_outputs if hasattr(theirs, "qa_outputs") else theirs.classifier)


CASES = {
    "pairs": (BertClassifier, BertClassifierConfig(**SIZES, n_classes=3), np.array([2, 0, 1])),
    "tokens": (BertTokenClassifier, BertTokenClassifierConfig(**SIZES, n_classes=4),
               np.array([[IGNORE_INDEX, 1, 2, 0, 3, 3, 1, IGNORE_INDEX]] * 3)),
    "spans": (BertSpanClassifier, BertSpanClassifierConfig(**SIZES),
              np.array([[4, 6], [5, 5], [1, 3]])),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_same_weights_same_logits_loss_and_gradients(name, rng):
    kind, config, targets = CASES[name]
    ours = kind(config, rng)
    for parameter in ours.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    torch, theirs = witness(ours)
    # 0 is padding there, whose embedding never changes
    ids, segments = rng.integers(1, 23, (3, 8)), np.array([[0] * 4 + [1] * 4] * 3)
    # transformers leaves the padding of a span in: so those rows are full
    lengths = np.array([8, 8, 8] if kind is BertSpanClassifier else [8, 6, 7])
    real = np.arange(8) < lengths[:, None]
    labels = {"labels": torch.tensor(targets)}
    if kind is BertSpanClassifier:
        labels = dict(start_positions=torch.tensor(targets[:, 0]),
                      end_positions=torch.tensor(targets[:, 1]))
    loss, saved = ours.loss((ids, lengths, segments, targets))
    out = theirs(input_ids=torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)),
                 token_type_ids=torch.tensor(segments), **labels)
    logits = ours(ids, lengths, segments)
    if kind is BertSpanClassifier:
        expected = torch.stack([out.start_logits, out.end_logits], 1)
    else:
        expected = out.logits
    if kind is BertTokenClassifier:
        logits, expected = logits[real], expected[torch.tensor(real)]
    np.testing.assert_allclose(logits, expected.detach().numpy(), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(loss, float(out.loss), rtol=1e-12)
    out.loss.backward()
    ours.loss_backward(saved)
    for mine, other in pairs_of(ours, theirs, "grad"):
        np.testing.assert_allclose(mine, other.grad.numpy(), rtol=1e-8, atol=1e-11)


def test_a_padded_row_has_the_loss_of_the_row_alone(rng):
    model = BertSpanClassifier(BertSpanClassifierConfig(**SIZES), rng)
    ids, targets = rng.integers(0, 23, (1, 5)), np.array([[1, 3]])
    padded = np.pad(ids, ((0, 0), (0, 3)))
    alone = model.loss((ids, np.array([5]), np.zeros_like(ids), targets))[0]
    other = model.loss((padded, np.array([5]), np.zeros_like(padded), targets))[0]
    np.testing.assert_allclose(other, alone, rtol=1e-12)


def test_best_spans_are_those_of_a_search(rng):
    logits, allowed = rng.standard_normal((6, 2, 7)), rng.random((6, 7)) < 0.6
    allowed[:, 2] = True
    for longest in (None, 1, 3):
        for row, (start, end) in enumerate(best_spans(logits, allowed, longest)):
            spans = [(i, j) for i in range(7) for j in range(i, min(7, i + (longest or 7)))
                     if allowed[row, i] and allowed[row, j]]
            best = max(spans, key=lambda span: logits[row, 0, span[0]] + logits[row, 1, span[1]])
            assert (start, end) == best


def test_best_spans_refuse_what_is_no_mask():
    logits = np.zeros((2, 2, 3))
    with pytest.raises(TypeError, match="best_spans: mask"):
        best_spans(logits, np.ones((2, 3)))
    with pytest.raises(ValueError, match="mask must have shape"):
        best_spans(logits, np.ones((2, 4), bool))
    with pytest.raises(ValueError, match="allows no token"):
        best_spans(logits, np.zeros((2, 3), bool))
