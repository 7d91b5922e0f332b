"""The second witness for BERT: the published implementation with the same weights, and PyTorch's
similarity losses.
"""

import numpy as np
import pytest

from numformer.functional import (
    IGNORE_INDEX, cosine_regression_loss, cosine_regression_loss_backward, cosine_similarity,
    cosine_similarity_backward, pair_features, pair_features_backward, triplet_loss,
    triplet_loss_backward)
from numformer.models import Bert, BertConfig

torch = pytest.importorskip("torch")
from torch_copies import copy_linear, copy_norm, tensor  # noqa: E402  (needs PyTorch)


def close(found, expected, tolerance=1e-11):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance,
                               atol=tolerance * max(1e-300, float(np.abs(expected).max())))


def pairs_of_parts(ours, theirs):
    """(our Linear or LayerNorm, theirs) all over the model."""
    yield ours.backbone.norm, theirs.bert.embeddings.LayerNorm
    for mine, other in zip(ours.backbone.encoder.blocks, theirs.bert.encoder.layer, strict=True):
        a, b = mine.attention, other.attention
        yield from zip([a.query, a.key, a.value, a.output],
                       [b.self.query, b.self.key, b.self.value, b.output.dense])
        yield mine.norm1, other.attention.output.LayerNorm
        yield mine.feedforward.hidden, other.intermediate.dense
        yield mine.feedforward.output, other.output.dense
        yield mine.norm2, other.output.LayerNorm
    yield ours.pooler.linear, theirs.bert.pooler.dense
    yield ours.next_sentence, theirs.cls.seq_relationship
    yield ours.head.linear, theirs.cls.predictions.transform.dense
    yield ours.head.norm, theirs.cls.predictions.transform.LayerNorm


def tables(ours, theirs):
    embeddings = theirs.bert.embeddings
    return [(ours.backbone.embedding.weight, embeddings.word_embeddings.weight),
            (ours.backbone.positions.weight,
            embeddings.position_embeddings.weight),
            (ours.backbone.segments.weight, embeddings.token_type_embeddings.weight),
            (ours.head.bias, theirs.cls.predictions.bias)]


@pytest.mark.filterwarnings("ignore")
def test_bert_for_pretraining(rng):
    transformers = pytest.importorskip("transformers")
    ours = Bert(BertConfig(vocab_size=23, context_length=10, n_layers=2, n_heads=2, d_model=8,
                           d_hidden=12, dtype="float64"), rng)
    for parameter in ours.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    theirs = transformers.BertForPreTraining(transformers.BertConfig(
        vocab_size=23, max_position_embeddings=10, num_hidden_layers=2, num_attention_heads=2,
        hidden_size=8, intermediate_size=12,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation="eager")).double()
    for mine, other in pairs_of_parts(ours, theirs):
        (copy_linear if hasattr(mine, "weight") else copy_norm)(mine, other)
    for mine, other in tables(ours, theirs):
        other.data = torch.tensor(mine.data)
    size = sum(p.data.size for p in ours.parameters())
    assert sum(p.numel() for p in theirs.parameters()) == size

    ids, lengths = rng.integers(0, 23, (3, 8)), np.array([8, 6, 7])
    segments = np.array([[0] * 4 + [1] * 4] * 3)
    real = np.arange(8) < lengths[:, None]
    targets = np.where(real & (rng.random((3, 8)) < 0.4), rng.integers(0, 23, (3, 8)), IGNORE_INDEX)
    follows = np.array([1, 0, 1])
    loss, saved = ours.loss((ids, targets, segments, lengths, follows))
    out = theirs(input_ids=torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)),
                 token_type_ids=torch.tensor(segments),
                 # its labels say 0 for "follows"; a name only
                 labels=torch.tensor(targets), next_sentence_label=torch.tensor(follows))
    close(loss, out.loss, 1e-12)
    close(ours.masked_logits(ids, segments, lengths)[real],
          out.prediction_logits[torch.tensor(real)], 1e-12)
    close(ours.next_sentence_logits(ids, segments, lengths), out.seq_relationship_logits, 1e-12)
    out.loss.backward()
    ours.loss_backward(saved)
    for mine, other in pairs_of_parts(ours, theirs):
        if hasattr(mine, "weight"):
            close(mine.weight.grad.T, other.weight.grad)
        else:
            close(mine.weight.grad, other.weight.grad)
            close(mine.bias.grad, other.bias.grad)
    for mine, other in tables(ours, theirs):
        close(mine.grad, other.grad)


def test_cosine_similarity(rng):
    a, b, ds = rng.standard_normal((4, 5)), rng.standard_normal((3, 5)), rng.standard_normal((4, 3))
    leaves = [tensor(a), tensor(b)]
    s, saved = cosine_similarity(a, b)
    expected = torch.nn.functional.cosine_similarity(leaves[0][:, None], leaves[1][None], dim=-1)
    close(s, expected, 1e-12)
    expected.backward(torch.tensor(ds))
    for found, leaf in zip(cosine_similarity_backward(ds, saved), leaves, strict=True):
        close(found, leaf.grad)


def test_pair_features(rng):
    vectors, df = rng.standard_normal((2, 6, 5)), rng.standard_normal((6, 15))
    leaves = [tensor(x) for x in vectors]
    f, saved = pair_features(*vectors)
    expected = torch.cat([*leaves, (leaves[0] - leaves[1]).abs()], dim=1)
    close(f, expected, 1e-12)
    expected.backward(torch.tensor(df))
    for found, leaf in zip(pair_features_backward(df, saved), leaves, strict=True):
        close(found, leaf.grad)


def test_cosine_regression_loss(rng):
    vectors, targets = rng.standard_normal((2, 6, 5)), rng.uniform(-1, 1, 6)
    leaves = [tensor(x) for x in vectors]
    loss, saved = cosine_regression_loss(*vectors, targets)
    expected = torch.nn.functional.mse_loss(torch.cosine_similarity(*leaves),
                                            torch.tensor(targets))
    close(loss, expected, 1e-12)
    expected.backward()
    for found, leaf in zip(cosine_regression_loss_backward(1.0, saved), leaves, strict=True):
        close(found, leaf.grad)


@pytest.mark.parametrize("margin", [0.1, 1.0, 5.0])
def test_triplet_loss(margin, rng):
    vectors = rng.standard_normal((3, 9, 5))
    leaves = [tensor(x) for x in vectors]
    loss, saved = triplet_loss(*vectors, margin=margin)
    expected = torch.nn.functional.triplet_margin_loss(*leaves, margin=margin, eps=0.0)
    close(loss, expected, 1e-12)
    expected.backward()
    for found, leaf in zip(triplet_loss_backward(1.0, saved), leaves, strict=True):
        close(found, leaf.grad)
