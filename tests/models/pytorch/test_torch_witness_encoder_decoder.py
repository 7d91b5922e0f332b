"""The second witness for the encoder-decoder: PyTorch's Transformer, and T5 of transformers, with
the same weights.
"""

import math

import numpy as np
import pytest

from numformer import functional as F
from numformer.models import T5, EncoderDecoder, EncoderDecoderConfig

torch = pytest.importorskip("torch")
from torch_copies import (  # noqa: E402
    copy_attention, copy_linear, copy_norm, random_layer, tensor)

SIZES = dict(vocab_size=11, context_length=12, n_layers=2, n_heads=2, d_model=8, d_hidden=20,
             dtype="float64")


def model_of(rng, **options):
    return random_layer(EncoderDecoder(EncoderDecoderConfig(**{**SIZES, **options}), rng), rng)


def some_ids(rng):
    return (rng.integers(3, 11, (3, 6)), np.array([6, 2, 4]), rng.integers(3, 11, (3, 5)),
            rng.integers(0, 11, (3, 5)))


def close(found, expected, tolerance=1e-11):
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=tolerance,
                               atol=tolerance * max(1e-300, float(np.abs(expected).max())))


def copy_block(ours, theirs, cross):
    """Into a TransformerEncoderLayer or a TransformerDecoderLayer."""
    copy_attention(ours.attention, theirs.self_attn)
    if cross:
        copy_attention(ours.cross_attention, theirs.multihead_attn)
    for name in ("norm1", "norm2", *["norm3"] * cross):
        copy_norm(getattr(ours, name), getattr(theirs, name))
    copy_linear(ours.feedforward.hidden, theirs.linear1)
    copy_linear(ours.feedforward.output, theirs.linear2)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_transformer_of_pytorch(norm_first, rng):
    """Its layers without the norms that it adds after post-norm stacks; the table, sinusoids and
    head of its own.
    """
    config, nn = EncoderDecoderConfig(**SIZES, norm_first=norm_first), torch.nn
    ours = random_layer(EncoderDecoder(config, rng), rng)
    inputs, lengths, outputs, targets = some_ids(rng)
    options = dict(d_model=8, nhead=2, dim_feedforward=20, dropout=0.0, batch_first=True,
                   norm_first=norm_first, dtype=torch.float64)
    last = (lambda: nn.LayerNorm(8, dtype=torch.float64)) if norm_first else (lambda: None)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), 2, last(),
                                    enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), 2, last())
    for mine, its, cross in ((ours.encoder.blocks, encoder, 0), (ours.blocks, decoder, 1)):
        for one, other in zip(mine, its.layers):
            copy_block(one, other, cross)
    if norm_first:
        copy_norm(ours.encoder.norm, encoder.norm)
        copy_norm(ours.norm, decoder.norm)

    table = tensor(ours.embedding.weight.data)

    def embed(ids):
        positions = F.sinusoidal_positions(np.arange(ids.shape[1]), 8, np.float64)
        return table[torch.tensor(ids)] * math.sqrt(8) + torch.tensor(positions)

    padding = torch.tensor(np.arange(6) >= lengths[:, None])
    memory = encoder(embed(inputs), src_key_padding_mask=padding)
    later = torch.triu(torch.ones(5, 5, dtype=bool), 1)
    expected = decoder(embed(outputs), memory, tgt_mask=later,
                       memory_key_padding_mask=padding) @ table.T
    logits, saved = ours.forward(inputs, lengths, outputs)
    close(logits, expected, 1e-12)

    loss, saved = ours.loss((inputs, lengths, outputs, targets))
    its_loss = nn.functional.cross_entropy(expected.reshape(-1, 11),
                                           torch.tensor(targets).reshape(-1))
    close(loss, its_loss, 1e-12)
    its_loss.backward()
    ours.loss_backward(saved)
    close(ours.embedding.weight.grad, table.grad)
    close(ours.blocks[0].cross_attention.output.weight.grad,
          decoder.layers[0].multihead_attn.out_proj.weight.grad.T)
    close(ours.encoder.blocks[0].feedforward.hidden.weight.grad,
          encoder.layers[0].linear1.weight.grad.T)
    close(ours.blocks[1].norm2.weight.grad, decoder.layers[1].norm2.weight.grad)
    close(ours.encoder.blocks[1].attention.query.weight.grad,
          encoder.layers[1].self_attn.in_proj_weight.grad[:8].T)


def test_t5_of_transformers(rng, monkeypatch):
    """Its table is sqrt(C) times ours, for it scales down before the head, where ours scales up
    after the embedding.
    """
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    # its own takes the mean square in float32, whatever comes in
    monkeypatch.setattr(t5.T5LayerNorm, "forward", lambda norm, x: torch.nn.functional.rms_norm(
        x, norm.weight.shape, norm.weight, norm.variance_epsilon))
    ours = model_of(rng, **{key: value for key, value in T5.items() if key not in SIZES},
                    n_buckets=8, max_distance=10)
    inputs, lengths, outputs, targets = some_ids(rng)
    config = t5.T5Config(vocab_size=11, d_model=8, d_kv=4, d_ff=20, num_layers=2, num_heads=2,
                         relative_attention_num_buckets=8,
                         relative_attention_max_distance=10, dropout_rate=0.0,
                         feed_forward_proj="relu", tie_word_embeddings=True)
    config._attn_implementation = "eager"
    theirs = t5.T5ForConditionalGeneration(config).double()

    def copy(mine, its):
        its.weight.data = torch.tensor(mine.weight.data.T.copy())

    def copy_t5_attention(mine, its):
        for one, other in zip((mine.query, mine.key, mine.value, mine.output),
                              (its.q, its.k, its.v, its.o)):
            copy(one, other)

    for stack, blocks, norm in ((theirs.encoder, ours.encoder.blocks, ours.encoder.norm),
                                (theirs.decoder, ours.blocks, ours.norm)):
        stack.final_layer_norm.weight.data = torch.tensor(norm.weight.data)
        bias = stack.block[0].layer[0].SelfAttention.relative_attention_bias
        bias.weight.data = torch.tensor(blocks[0].attention.positions.weight.data)
        for mine, its in zip(blocks, stack.block):
            copy_t5_attention(mine.attention, its.layer[0].SelfAttention)
            if stack is theirs.decoder:
                copy_t5_attention(mine.cross_attention, its.layer[1].EncDecAttention)
            copy(mine.feedforward.hidden, its.layer[-1].DenseReluDense.wi)
            copy(mine.feedforward.output, its.layer[-1].DenseReluDense.wo)
            for k, part in enumerate(its.layer):
                norm = getattr(mine, f"norm{k + 1}")
                part.layer_norm.weight.data = torch.tensor(norm.weight.data)
    theirs.shared.weight.data = torch.tensor(ours.embedding.weight.data * math.sqrt(8))
    theirs.tie_weights()

    mask = torch.tensor(np.arange(6) < lengths[:, None]).long()
    found = theirs(input_ids=torch.tensor(inputs), attention_mask=mask,
                   decoder_input_ids=torch.tensor(outputs), use_cache=False)
    close(ours(inputs, lengths, outputs), found.logits, 1e-12)
    loss, saved = ours.loss((inputs, lengths, outputs, targets))
    its_loss = torch.nn.functional.cross_entropy(found.logits.reshape(-1, 11),
                                                 torch.tensor(targets).reshape(-1))
    close(loss, its_loss, 1e-12)
    its_loss.backward()
    ours.loss_backward(saved)
    close(ours.embedding.weight.grad, theirs.shared.weight.grad * math.sqrt(8))
    for blocks, stack in ((ours.encoder.blocks, theirs.encoder), (ours.blocks, theirs.decoder)):
        close(blocks[0].attention.positions.weight.grad,
              stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.grad)
        close(blocks[1].feedforward.output.weight.grad,
              stack.block[1].layer[-1].DenseReluDense.wo.weight.grad.T)
        close(blocks[0].attention.query.weight.grad,
              stack.block[0].layer[0].SelfAttention.q.weight.grad.T)
    close(ours.blocks[1].cross_attention.key.weight.grad,
          theirs.decoder.block[1].layer[1].EncDecAttention.k.weight.grad.T)
