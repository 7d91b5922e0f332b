"""Fine-tuned encoders: what transformers computes for texts, tokens and spans, ours does."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.interop import load
from numformer.models import BertClassifier, BertSpanClassifier, BertTokenClassifier
from test_encoders import MODERNBERT, SIZES, TEXT
from witness import (
    VOCABULARY, close, folder_of, goes_back, gradients_agree, in_double, quiet, random_model, torch,
    transformers as t)

__all__ = ["in_double"]
pytestmark = [quiet, pytest.mark.usefixtures("in_double")]
DISTILBERT = dict(vocab_size=VOCABULARY, n_layers=2, n_heads=2, dim=8, hidden_dim=12, dropout=0.0,
                  attention_dropout=0.0, qa_dropout=0.0, seq_classif_dropout=0.0,
                  max_position_embeddings=10)
ROBERTA = dict(TEXT, **SIZES, max_position_embeddings=12, type_vocab_size=1)
CONFIGS = {
    "Bert": lambda **more: t.BertConfig(**TEXT, **SIZES, max_position_embeddings=10,
                                        hidden_act="relu", **more),
    "Roberta": lambda **more: t.RobertaConfig(**ROBERTA, **more),
    "XLMRoberta": lambda **more: t.XLMRobertaConfig(**ROBERTA, **more),
    "Camembert": lambda **more: t.CamembertConfig(**ROBERTA, **more),
    "DistilBert": lambda **more: t.DistilBertConfig(**DISTILBERT, activation="gelu", **more),
    "ModernBert": lambda **more: t.ModernBertConfig(
        **MODERNBERT, local_attention=4, classifier_pooling="mean", norm_eps=1e-3, **more)}
KINDS = {"SequenceClassification": BertClassifier, "TokenClassification": BertTokenClassifier,
         "QuestionAnswering": BertSpanClassifier}


def pair(name, what, tmp_path, **more):
    theirs = random_model(getattr(t, f"{name}For{what}"), CONFIGS[name](**more))
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    assert type(ours) is KINDS[what]
    return theirs, ours


def texts(rng, theirs, padded):
    """ids, lengths, segments or None, which are tokens; and the arguments of theirs."""
    ids, lengths = rng.integers(2, VOCABULARY, (3, 8)), np.array([8, 6, 7] if padded else [8] * 3)
    real = np.arange(8) < lengths[:, None]
    ids[~real] = theirs.config.pad_token_id
    given = dict(input_ids=torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)))
    segments = None
    if theirs.config.model_type == "bert":
        segments = np.array([[0] * 4 + [1] * 4] * 3)
        given["token_type_ids"] = torch.tensor(segments)
    return ids, lengths, segments, real, given


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("what", KINDS)
def test_logits_loss_and_every_gradient(name, what, rng, tmp_path):
    spans = what == "QuestionAnswering"
    theirs, ours = pair(name, what, tmp_path, **({} if spans else dict(num_labels=4)))
    # transformers leaves the padding of a span in: so those rows are full
    ids, lengths, segments, real, given = texts(rng, theirs, padded=not spans)
    if spans:
        targets = np.array([[4, 6], [5, 5], [1, 3]])
        labels = dict(start_positions=torch.tensor(targets[:, 0]),
                      end_positions=torch.tensor(targets[:, 1]))
    else:
        targets = np.array([3, 0, 1])
        if what == "TokenClassification":
            targets = np.where(real & (rng.random((3, 8)) < 0.6), rng.integers(0, 4, (3, 8)),
                               IGNORE_INDEX)
        labels = dict(labels=torch.tensor(targets))
    out = theirs(**given, **labels)
    logits = ours(ids, lengths, segments)
    expected = torch.stack([out.start_logits, out.end_logits], 1) if spans else out.logits
    if what == "TokenClassification":
        logits, expected = logits[real], expected[torch.tensor(real)]
    close(logits, expected, 1e-12)
    loss, saved = ours.loss((ids, lengths, segments, targets))
    close(loss, out.loss, 1e-12)
    goes_back(theirs, ours, tmp_path, dict(input_ids=torch.tensor(ids[:1])))
    out.loss.backward()
    ours.loss_backward(saved)
    gradients_agree(ours, theirs, tmp_path / "gradients")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_reranker_has_one_label(name, rng, tmp_path):
    theirs, ours = pair(name, "SequenceClassification", tmp_path, num_labels=1)
    ids, lengths, segments, _, given = texts(rng, theirs, padded=True)
    with torch.no_grad():
        close(ours(ids, lengths, segments), theirs(**given).logits, 1e-12)
