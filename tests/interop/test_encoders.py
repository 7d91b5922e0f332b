"""BERT and its relatives and the Vision Transformer: what transformers computes, ours does."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.interop import load
from witness import (
    VOCABULARY, close, folder_of, goes_back, gradients_agree, in_double, loss_of, quiet,
    random_model, torch, transformers as t)

__all__ = ["in_double"]
pytestmark = [quiet, pytest.mark.usefixtures("in_double")]
TEXT = dict(vocab_size=VOCABULARY, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SIZES = dict(num_hidden_layers=2, num_attention_heads=2, hidden_size=8, intermediate_size=12)
MODERNBERT = dict(SIZES, num_hidden_layers=4, vocab_size=VOCABULARY, max_position_embeddings=10,
                  **dict.fromkeys(f"{name}_token_id" for name in ("bos", "eos", "cls", "sep")),
                  pad_token_id=0)
BERTS = {
    "bert": lambda: (t.BertForMaskedLM, t.BertConfig(**TEXT, **SIZES, max_position_embeddings=10)),
    "bert-pretraining": lambda: (t.BertForPreTraining, t.BertConfig(
        **TEXT, **SIZES, max_position_embeddings=10, type_vocab_size=3, layer_norm_eps=1e-3)),
    "roberta": lambda: (t.RobertaForMaskedLM, t.RobertaConfig(
        **TEXT, **SIZES, max_position_embeddings=12, type_vocab_size=1, hidden_act="gelu_new")),
    "xlm-roberta": lambda: (t.XLMRobertaForMaskedLM, t.XLMRobertaConfig(
        **TEXT, **SIZES, max_position_embeddings=12, type_vocab_size=1, layer_norm_eps=1e-5)),
    "camembert": lambda: (t.CamembertForMaskedLM, t.CamembertConfig(
        **TEXT, **SIZES, max_position_embeddings=12, type_vocab_size=1)),
    "distilbert": lambda: (t.DistilBertForMaskedLM, t.DistilBertConfig(
        vocab_size=VOCABULARY, n_layers=2, n_heads=2, dim=8, hidden_dim=12, dropout=0.0,
        attention_dropout=0.0, max_position_embeddings=10)),
    "modernbert": lambda: (t.ModernBertForMaskedLM, t.ModernBertConfig(
        **MODERNBERT, local_attention=4, global_attn_every_n_layers=3)),
    "modernbert-global": lambda: (t.ModernBertForMaskedLM, t.ModernBertConfig(
        **MODERNBERT, global_attn_every_n_layers=1, norm_eps=1e-3,
        hidden_activation="gelu_pytorch_tanh")),
    "modernbert-bases": lambda: (t.ModernBertForMaskedLM, t.ModernBertConfig(
        **MODERNBERT, local_attention=2, layer_types=[
            f"{kind}_attention" for kind in ("full", "sliding", "full", "sliding")],
        rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=70.0),
            sliding_attention=dict(rope_type="default", rope_theta=20.0)))),
}
ROBERTAS = "roberta", "xlm-roberta", "camembert"


def loaded(kind, config, tmp_path):
    theirs = random_model(kind, config)
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    return theirs, ours


@pytest.mark.parametrize("case", BERTS)
def test_masked_tokens(case, rng, tmp_path):
    theirs, ours = loaded(*BERTS[case](), tmp_path)
    ids, lengths = rng.integers(2, VOCABULARY, (3, 8)), np.array([8, 6, 7])
    real = np.arange(8) < lengths[:, None]
    ids[~real] = getattr(theirs.config, "pad_token_id", 0)
    targets = np.where(real & (rng.random((3, 8)) < 0.4), rng.integers(0, VOCABULARY, (3, 8)),
                       IGNORE_INDEX)
    options = dict(attention_mask=torch.tensor(real.astype(int)), labels=torch.tensor(targets))
    segments = follows = None
    if case.startswith("bert"):
        segments = np.array([[0] * 4 + [1] * 4] * 3)
        options["token_type_ids"] = torch.tensor(segments)
    if case == "bert-pretraining":
        follows = np.array([1, 0, 1])
        options["next_sentence_label"] = torch.tensor(1 - follows)    # theirs: 0 for "follows"
    out = theirs(torch.tensor(ids), **options)
    loss, saved = ours.loss((ids, targets, segments, lengths, follows))
    close(loss, out.loss, 1e-10)
    logits = getattr(out, "prediction_logits", getattr(out, "logits", None))
    close(ours.masked_logits(ids, segments, lengths)[real], logits[torch.tensor(real)], 1e-10)
    if follows is not None:
        close(ours.next_sentence_logits(ids, segments, lengths)[:, ::-1],
              out.seq_relationship_logits, 1e-10)
    goes_back(theirs, ours, tmp_path, dict(input_ids=torch.tensor(ids[:1])))
    out.loss.backward()
    ours.loss_backward(saved)
    gradients_agree(ours, theirs, tmp_path / "gradients")


@pytest.mark.parametrize("case", BERTS)
def test_padding_on_the_left(case, rng, tmp_path):
    """Padding has positions of its own, in all but RoBERTa, which counts tokens."""
    theirs, ours = loaded(*BERTS[case](), tmp_path)
    ids, lengths = rng.integers(2, VOCABULARY, (3, 8)), np.array([8, 5, 7])
    real = np.arange(8) >= 8 - lengths[:, None]
    ids[~real] = theirs.config.pad_token_id
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)))[0]
    for row, its_row, length in zip(ids, expected.numpy(), lengths):
        row, mask = row[None], np.broadcast_to(np.arange(8) >= 8 - length, (8, 8))
        vectors = (ours(row[:, 8 - length:]) if case in ROBERTAS
                   else ours(row, mask=mask)[:, 8 - length:])
        close(ours.head(vectors)[0], its_row[8 - length:], 1e-10)


def test_names_of_old_files_of_bert(tmp_path):
    """gamma and beta, the table a second time, and positions among the tensors."""
    from safetensors.numpy import load_file, save_file

    _, ours = loaded(*BERTS["bert-pretraining"](), tmp_path)
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = {name.replace("LayerNorm.weight", "LayerNorm.gamma")
               .replace("LayerNorm.bias", "LayerNorm.beta"): x for name, x in
               load_file(path).items()}
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["bert.embeddings.position_ids"] = np.arange(10)[None]
    save_file(tensors, path)
    again, _ = load(tmp_path / "theirs")
    for (name, a), b in zip(ours.named_parameters(), again.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data, err_msg=name)


@pytest.mark.parametrize("name, other", [
    ("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma"),
    ("bert.encoder.layer.1.output.LayerNorm.bias", "bert.encoder.layer.1.output.LayerNorm.beta")])
def test_two_names_for_one_tensor_are_refused(name, other, tmp_path):
    """Which of them the model has would depend on their order in the file."""
    from safetensors.numpy import load_file, save_file

    folder_of(random_model(*BERTS["bert"]()), tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, other: 0 * tensors[name]}, path)
    with pytest.raises(ValueError, match=f"theirs: {name} is a second name for {name}|"
                                         f"theirs: {other} is a second name for {name}"):
        load(tmp_path / "theirs")


@pytest.mark.parametrize("kind, config", [
    (t.ViTForImageClassification, t.ViTConfig), (t.DeiTForImageClassification, t.DeiTConfig),
    (t.DeiTForImageClassificationWithTeacher, t.DeiTConfig)],
    ids=["vit", "deit of one head", "deit"])
def test_vision_transformer(kind, config, rng, tmp_path):
    theirs, ours = loaded(kind, config(
        **SIZES, image_size=12, patch_size=4, num_channels=3, num_labels=5), tmp_path)
    images, labels = rng.standard_normal((4, 12, 12, 3)), np.array([0, 4, 2, 2])
    given = dict(pixel_values=torch.tensor(images.transpose(0, 3, 1, 2)))
    logits = theirs(**given).logits
    loss, saved = ours.loss((images, labels))
    close(ours(images), logits, 1e-10)
    expected = loss_of(logits, labels)
    close(loss, expected, 1e-10)
    goes_back(theirs, ours, tmp_path, given)
    expected.backward()
    ours.loss_backward(saved)
    gradients_agree(ours, theirs, tmp_path / "gradients")
