"""The second witness for BART: the published implementation with the same weights."""

import numpy as np
import pytest

from numformer.models import BART, EncoderDecoder, EncoderDecoderConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch_copies import close, copy_linear, copy_norm, random_layer  # noqa: E402

SIZES = dict(vocab_size=13, context_length=12, n_layers=1, n_encoder_layers=3, n_heads=2, d_model=8,
             d_hidden=20, dtype="float64")


def parts(ours, theirs):
    """(our Linear or norm, theirs)."""
    for stack, norm, blocks in ((theirs.encoder, ours.input_norm, ours.encoder.blocks),
                                (theirs.decoder, ours.output_norm, ours.blocks)):
        yield norm, stack.layernorm_embedding
        for block, layer in zip(blocks, stack.layers, strict=True):
            attentions, norms = [(block.attention, layer.self_attn)], [layer.self_attn_layer_norm]
            if stack is theirs.decoder:
                attentions.append((block.cross_attention, layer.encoder_attn))
                norms.append(layer.encoder_attn_layer_norm)
            for a, its in attentions:
                yield from zip([a.query, a.key, a.value, a.output],
                               [its.q_proj, its.k_proj, its.v_proj, its.out_proj])
            yield block.feedforward.hidden, layer.fc1
            yield block.feedforward.output, layer.fc2
            for n, its in enumerate([*norms, layer.final_layer_norm], start=1):
                yield getattr(block, f"norm{n}"), its


def is_linear(part):
    return part.weight.data.ndim == 2


@pytest.mark.filterwarnings("ignore")
def test_bart_with_stacks_of_different_depths(rng):
    """Its tables of positions have two rows more, before the first position."""
    ours = random_layer(EncoderDecoder(EncoderDecoderConfig(**{**BART, **SIZES}), rng), rng)
    theirs = transformers.BartForConditionalGeneration(transformers.BartConfig(
        vocab_size=13, max_position_embeddings=12, d_model=8, encoder_layers=3, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=20,
        decoder_ffn_dim=20, dropout=0.0, scale_embedding=False, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None)).double()
    assert [len(ours.encoder.blocks), len(ours.blocks)] == [3, 1]
    for mine, its in parts(ours, theirs.model):
        (copy_linear if is_linear(mine) else copy_norm)(mine, its)
    tables = [(ours.input_positions.weight, theirs.model.encoder.embed_positions.weight),
              (ours.output_positions.weight, theirs.model.decoder.embed_positions.weight)]
    for mine, its in tables:
        its.data[2:] = torch.tensor(mine.data)
    theirs.model.shared.weight.data = torch.tensor(ours.embedding.weight.data)
    theirs.tie_weights()

    inputs, lengths = rng.integers(3, 13, (3, 6)), np.array([6, 2, 4])
    outputs, targets = rng.integers(3, 13, (2, 3, 5))
    mask = torch.tensor(np.arange(6) < lengths[:, None]).long()
    logits = theirs(input_ids=torch.tensor(inputs), attention_mask=mask,
                    decoder_input_ids=torch.tensor(outputs), use_cache=False).logits
    close(ours(inputs, lengths, outputs), logits, 1e-12)
    expected = torch.nn.functional.cross_entropy(logits.reshape(-1, 13),
                                                 torch.tensor(targets).reshape(-1))
    loss, saved = ours.loss((inputs, lengths, outputs, targets))
    close(loss, expected, 1e-12)
    expected.backward()
    ours.loss_backward(saved)
    for mine, its in parts(ours, theirs.model):
        gradient = its.weight.grad.T if is_linear(mine) else its.weight.grad
        close(mine.weight.grad, gradient, 1e-10)
    close(ours.embedding.weight.grad, theirs.model.shared.weight.grad, 1e-10)
    for mine, its in tables:
        close(mine.grad, its.grad[2:], 1e-10)

    logits_in_steps, cache = [], ours.begin(inputs, lengths)
    for t in range(5):
        step, cache = ours.step(outputs[:, t:t + 1], cache)
        logits_in_steps.append(step)
    close(np.concatenate(logits_in_steps, axis=1), logits, 1e-12)
