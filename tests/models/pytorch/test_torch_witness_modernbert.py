"""The second witness for ModernBERT: the published implementation with the same weights."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.models import BERT_CONFIGS, Bert, BertConfig
from numformer.models.bert.model import MODERNBERT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch_copies import close, copy_norm  # noqa: E402  (needs PyTorch)

SIZES = dict(vocab_size=23, n_layers=4, n_heads=2, d_model=12, d_hidden=10)


@pytest.fixture
def in_double(monkeypatch):
    """It computes its rotary angles, and rotates, in float32 whatever the weights are."""
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def theirs_of(config, **options):
    """A model of the published config, but for its sizes."""
    return transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(
        vocab_size=config.vocab_size, num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads, hidden_size=config.d_model,
        intermediate_size=config.d_hidden, **options))


def linear_maps(ours, theirs):
    """(our Linears, theirs): one of theirs may hold several of ours, one above the other."""
    for mine, other in zip(ours.backbone.encoder.blocks, theirs.model.layers, strict=True):
        a, f = mine.attention, mine.feedforward
        yield [a.query, a.key, a.value], other.attn.Wqkv
        yield [a.output], other.attn.Wo
        yield [f.gate, f.hidden], other.mlp.Wi
        yield [f.output], other.mlp.Wo
    yield [ours.head.linear], theirs.head.dense


def norms(ours, theirs):
    yield ours.backbone.norm, theirs.model.embeddings.norm
    for i, (mine, other) in enumerate(zip(ours.backbone.encoder.blocks, theirs.model.layers)):
        if i:
            yield mine.norm1, other.attn_norm
        yield mine.norm2, other.mlp_norm
    yield ours.backbone.encoder.norm, theirs.model.final_norm
    yield ours.head.norm, theirs.head.norm


def vectors(ours, theirs):
    return [(ours.backbone.embedding.weight, theirs.model.embeddings.tok_embeddings.weight),
            (ours.head.bias, theirs.decoder.bias)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("lengths", [[11, 11, 11], [11, 9, 10]], ids=["full", "padded"])
def test_modernbert_for_masked_tokens(lengths, rng):
    """Global, local, local, global layers, of a window that is much shorter than the text."""
    ours = Bert(BertConfig(**{**MODERNBERT, **SIZES, "sliding_window": 3}, dtype="float64"), rng)
    for parameter in ours.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    theirs = theirs_of(ours.config, local_attention=4, pad_token_id=None, cls_token_id=None,
                       sep_token_id=None, bos_token_id=None, eos_token_id=None,
                       attn_implementation="sdpa").double()
    for mine, other in linear_maps(ours, theirs):
        assert other.bias is None and all(part.bias is None for part in mine)
        joint = np.concatenate([part.weight.data.T for part in mine])
        other.weight.data = torch.tensor(joint)
    for mine, other in norms(ours, theirs):
        copy_norm(mine, other)
    for mine, other in vectors(ours, theirs):
        other.data = torch.tensor(mine.data)
    theirs.tie_weights()
    size = sum(p.data.size for p in ours.parameters())
    assert sum(p.numel() for p in theirs.parameters()) == size

    ids, lengths = rng.integers(0, 23, (3, 11)), np.array(lengths)
    real = np.arange(11) < lengths[:, None]
    targets = np.where(real & (rng.random((3, 11)) < 0.4), rng.integers(0, 23, (3, 11)),
                       IGNORE_INDEX)
    out = theirs(input_ids=torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)),
                 labels=torch.tensor(targets))
    loss, saved = ours.loss((ids, targets, None, lengths, None))
    close(ours.masked_logits(ids, lengths=lengths)[real], out.logits[torch.tensor(real)], 1e-10)
    close(loss, out.loss, 1e-10)
    out.loss.backward()
    ours.loss_backward(saved)
    compared = 0
    for mine, other in linear_maps(ours, theirs):
        close(np.concatenate([part.weight.grad.T for part in mine]), other.weight.grad, 1e-9)
        compared += other.weight.numel()
    for mine, other in norms(ours, theirs):
        close(mine.weight.grad, other.weight.grad, 1e-9)
        compared += other.weight.numel()
    for mine, other in vectors(ours, theirs):
        close(mine.grad, other.grad, 1e-9)
        compared += other.numel()
    assert compared == size, "every parameter, once"


def test_published_options_and_sizes():
    published, config = transformers.ModernBertConfig(), BERT_CONFIGS["modernbert-base"]
    bases = {kind: options["rope_theta"] for kind, options in published.rope_parameters.items()}
    assert bases == {"full_attention": config.rotary_base,
                     "sliding_attention": config.local_rotary_base}
    assert published.local_attention == 2 * (config.sliding_window - 1)
    assert published.norm_eps == config.epsilon
    assert published.classifier_bias == published.norm_bias == config.head_bias
    for name in ("modernbert-base", "modernbert-large"):
        config = BERT_CONFIGS[name]
        with torch.device("meta"):
            theirs = theirs_of(config)
        assert (sum(p.numel() for p in theirs.parameters())
                == sum(p.data.size for p in Bert(config, None).parameters()))
