"""T5 of all versions, BART and mBART: what transformers computes, ours does; their texts, greedy
ones and beams, too, in padded batches."""

import numpy as np
import pytest

from numformer.functional import IGNORE_INDEX
from numformer.generation import greedy_search, pooled_beam_search
from numformer.interop import load, save
from witness import (
    VOCABULARY, close, folder_of, goes_back, gradients_agree, in_double, loss_of, quiet,
    random_model, torch, transformers as t)

__all__ = ["in_double"]
pytestmark = [quiet, pytest.mark.usefixtures("in_double")]
S, T = 9, 6
LENGTHS, MOST, START, PADDING = (9, 5, 7), 8, 2, 0
# With a seed whose texts are not one token again and again. The decoder has no more blocks than the
# encoder: the cache of transformers has no place for them
SEEDS = {"t5": 3, "flan-t5-wide-heads": 2, "mt5": 2, "bart": 2, "distilbart": 2, "mbart": 2}
T5 = dict(vocab_size=VOCABULARY, d_model=12, d_kv=4, d_ff=10, num_layers=2, num_heads=3,
          relative_attention_num_buckets=8, relative_attention_max_distance=20, dropout_rate=0.0,
          decoder_start_token_id=0, eos_token_id=1, pad_token_id=0)
BART = dict(vocab_size=VOCABULARY, d_model=12, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=10,
            decoder_ffn_dim=10, max_position_embeddings=20, dropout=0.0, forced_eos_token_id=None)


def own_head(kind):
    """The constructor of a model whose head is no table of tokens: transformers ties it in a new
    model, but not where a file has both."""
    def construct(config):
        model = kind(config)
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        return model
    return construct


def t5(head=t.T5ForConditionalGeneration, **options):
    return head, t.T5Config(**{**T5, **options})


def flan(**options):
    return t5(own_head(t.T5ForConditionalGeneration), tie_word_embeddings=False,
              **{"feed_forward_proj": "gated-gelu", **options})


def bart(**options):
    return t.BartForConditionalGeneration, t.BartConfig(**{**BART, **options})


CASES = {
    "t5": t5,
    "t5-gelu": lambda: t5(feed_forward_proj="gelu"),
    "t5-more-decoder": lambda: t5(num_decoder_layers=3, layer_norm_epsilon=1e-3),
    "flan-t5": flan,
    "flan-t5-wide-heads": lambda: flan(d_kv=6, num_decoder_layers=1),
    "flan-t5-silu": lambda: flan(feed_forward_proj="gated-silu"),
    "flan-t5-one-table": lambda: t5(tie_word_embeddings=False, feed_forward_proj="gated-gelu"),
    "mt5": lambda: (own_head(t.MT5ForConditionalGeneration), t.MT5Config(**T5)),
    "bart": bart,
    "distilbart": lambda: bart(decoder_layers=1, scale_embedding=True,
                               activation_function="relu"),
    "mbart": lambda: (t.MBartForConditionalGeneration, t.MBartConfig(
        **BART, scale_embedding=True, decoder_start_token_id=2)),
}


@pytest.fixture(params=CASES)
def pair(request, tmp_path):
    """(theirs, ours)"""
    theirs = random_model(*CASES[request.param]())
    ours, _ = load(folder_of(theirs, tmp_path / "theirs"))
    assert ours.config.dtype == "float64"
    return theirs, ours


@pytest.fixture
def texts(rng):
    """(inputs, lengths, outputs, targets), and what theirs takes for them. Without padding among
    the tokens: BART's gets no gradient."""
    inputs, lengths = rng.integers(2, VOCABULARY, (3, S)), np.array([S, 5, 7])
    outputs, targets = rng.integers(2, VOCABULARY, (2, 3, T))
    targets[0, 3] = IGNORE_INDEX
    real = torch.tensor((np.arange(S) < lengths[:, None]).astype(int))
    return (inputs, lengths, outputs, targets), dict(
        input_ids=torch.tensor(inputs), attention_mask=real,
        decoder_input_ids=torch.tensor(outputs))


def test_logits_loss_and_every_gradient(pair, texts, tmp_path):
    theirs, ours = pair
    batch, given = texts
    logits = theirs(**given).logits
    close(ours(*batch[:3]), logits, 1e-10)
    expected = loss_of(logits, batch[3])
    expected.backward()
    loss, saved = ours.loss(batch)
    ours.loss_backward(saved)
    close(loss, expected, 1e-10)
    gradients_agree(ours, theirs, tmp_path / "gradients")


def test_there_and_back(pair, texts, tmp_path):
    theirs, ours = pair
    goes_back(theirs, ours, tmp_path, texts[1])


def test_padding_on_the_left(pair, texts):
    """Masks in place of lengths: the first tokens of an input are padding."""
    theirs, ours = pair
    (inputs, lengths, outputs, _), given = texts
    real = np.arange(S) >= S - lengths[:, None]                       # (B, S)
    logits = theirs(**{**given, "attention_mask": torch.tensor(real.astype(int))}).logits
    mask = np.broadcast_to(real[:, None, None], (3, 1, S, S))
    found = ours(inputs, np.full(3, S), outputs, input_mask=mask, memory_mask=mask[:, :, :T])
    close(found, logits, 1e-10)


@pytest.fixture(params=SEEDS)
def writers(request, tmp_path):
    """(theirs, ours); without biases and with large positions, so that texts vary."""
    theirs = random_model(*CASES[request.param](), SEEDS[request.param])
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith("bias") or "embed_positions" in name:
                parameter *= 0 if name.endswith("bias") else 10
    return theirs, load(folder_of(theirs, tmp_path / "theirs"))[0]


@pytest.fixture
def sources(rng):
    return [rng.integers(3, VOCABULARY, length) for length in LENGTHS]


def written(theirs, sources, side="right", end=None, **options):
    """What `generate` of transformers returns for a padded batch."""
    ids = np.full((len(sources), max(map(len, sources))), PADDING)
    real = np.zeros(ids.shape, int)
    for row, mask, source in zip(ids, real, sources):
        part = slice(len(source)) if side == "right" else slice(len(row) - len(source), None)
        row[part], mask[part] = source, 1
    return theirs.generate(
        torch.tensor(ids), attention_mask=torch.tensor(real), do_sample=False, max_new_tokens=MOST,
        decoder_start_token_id=START, eos_token_id=end, pad_token_id=PADDING,
        return_dict_in_generate=True, output_scores=True, **options)


def without_end(rows, end):
    """Rows of ids without the start, and up to the end."""
    rows = np.array(rows)[:, 1:].tolist()
    return [row[:row.index(end)] if end in row else row for row in rows]


def common_token(theirs, sources):
    """A token that is written in the middle of texts, to be their end."""
    rows = without_end(written(theirs, sources).sequences, None)
    assert len({token for row in rows for token in row}) > 1
    return rows[0][MOST // 2]


def test_greedy_texts(writers, sources):
    theirs, ours = writers
    for end in (None, common_token(theirs, sources)):
        found = greedy_search(ours, sources, PADDING, START, end, MOST)
        sides = ["right"] if theirs.config.model_type.endswith("bart") else ["right", "left"]
        for side in sides:                            # for BART, padding on the left has positions
            expected = without_end(written(theirs, sources, side, end).sequences, end)
            assert [ids.tolist() for ids in found] == expected
    assert min(map(len, found)) < MOST
    for source, ids in zip(sources, found):
        alone, = greedy_search(ours, [source], PADDING, START, end, MOST)
        assert alone.tolist() == ids.tolist()


def test_an_exported_folder_says_how_texts_begin_and_end(writers, sources, tmp_path):
    theirs, ours = writers
    end = common_token(theirs, sources)
    save(ours, None, tmp_path / "out", theirs.config.model_type, dict(
        pad_token_id=PADDING, decoder_start_token_id=START, eos_token_id=end))
    again = type(theirs).from_pretrained(tmp_path / "out", attn_implementation="eager").eval()
    ids = again.generate(torch.tensor(sources[0][None]), max_new_tokens=MOST, num_beams=1,
                         do_sample=False, forced_eos_token_id=None)
    found, = greedy_search(ours, sources[:1], PADDING, START, end, MOST)
    assert without_end(ids, end) == [found.tolist()] and ids[0, 0] == START


@pytest.mark.parametrize("early_stopping, length_penalty", [
    (False, 1.0), (False, 0.0), (True, 2.0), ("never", 0.7)], ids=str)
def test_beams(writers, sources, early_stopping, length_penalty):
    theirs, ours = writers
    for end in (None, common_token(theirs, sources)):
        out = written(theirs, sources, end=end, num_beams=3, num_return_sequences=3,
                      length_penalty=length_penalty, early_stopping=early_stopping)
        found = pooled_beam_search(ours, sources, PADDING, START, end, 3, MOST, length_penalty,
                                   early_stopping)
        pools = [answer for pool in found for answer in pool]
        assert [list(answer.ids) for answer in pools] == without_end(out.sequences, end)
        close([answer.score for answer in pools], out.sequences_scores, 1e-10)
    assert min(len(answer.ids) for answer in pools) < MOST
    for source, pool in zip(sources, found):
        alone, = pooled_beam_search(ours, [source], PADDING, START, end, 3, MOST, length_penalty,
                                    early_stopping)
        assert [answer.ids for answer in alone] == [answer.ids for answer in pool]
