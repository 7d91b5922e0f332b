"""Beam search against all possible answers and greedy search, and its length penalty."""

from itertools import product

import numpy as np
import pytest

from numformer.functional import log_softmax
from numformer.generation import beam_search, greedy_search, pooled_beam_search
from numformer.generation.beam_search import Hypothesis, penalized
from numformer.models import EncoderDecoder, EncoderDecoderConfig

PADDING, BEGIN, END = 0, 1, 2
V, LONGEST = 5, 4


class Table:
    """A model whose logits are a random function of the source and all previous tokens."""

    def __init__(self, peak=1.5):
        self.peak, self.most_rows = peak, 0

    def begin(self, inputs, lengths):
        return Written([(tuple(row[:n].tolist()), ()) for row, n in zip(inputs, lengths)])

    def step(self, ids, cache):
        assert ids.shape == (len(cache.texts), 1)
        after = [(source, (*written, int(token))) for (source, written),
                 token in zip(cache.texts, ids[:, 0])]
        self.most_rows = max(self.most_rows, len(after))
        return np.array([self.logits(*text) for text in after])[:, None], Written(after)

    def logits(self, source, written):
        return self.peak * np.random.default_rng([*source, 99, *written]).standard_normal(V)


class Written:
    def __init__(self, texts):
        self.texts = texts

    def rows(self, order):
        return Written([self.texts[i] for i in order])


def all_answers(model, source):
    """Every answer that ends within LONGEST tokens, and those that are cut there."""
    ended, cut = [], []
    others = [token for token in range(V) if token != END]
    for length in range(LONGEST + 1):
        for ids in product(others, repeat=length):
            log_p, written = 0.0, (BEGIN,)
            for token in (*ids, *[END] * (length < LONGEST)):
                log_p += log_softmax(model.logits(tuple(source), written))[0][token]
                written = (*written, token)
            (ended if length < LONGEST else cut).append(Hypothesis(ids, log_p, len(written) - 1))
    return ended, cut


@pytest.mark.parametrize("length_penalty", [0, 0.6, 2.0])
def test_with_beams_for_all_answers_it_is_exhaustive(length_penalty):
    model, sources = Table(), [[3], [4, 3, 3], [3, 4], [4]]
    found = beam_search(model, sources, PADDING, BEGIN, END, beams=V**LONGEST, max_tokens=LONGEST,
                        length_penalty=length_penalty)
    for source, answer in zip(sources, found):
        ended, _ = all_answers(model, source)
        best = max(ended, key=lambda hypothesis: penalized(hypothesis, length_penalty))
        assert tuple(answer.tolist()) == best.ids
    assert {tuple(answer.tolist()) for answer in found} != {()}


@pytest.mark.parametrize("length_penalty", [0, 1.0, 2.0])
def test_a_pool_of_all_answers_is_exhaustive(length_penalty):
    """It ranks answers that were cut among the others."""
    model, sources = Table(), [[3], [4, 3, 3], [3, 4]]
    found = pooled_beam_search(model, sources, PADDING, BEGIN, END, V**LONGEST, LONGEST,
                               length_penalty)
    for source, pool in zip(sources, found):
        answers = {one.ids: one.log_p / one.length**length_penalty
                   for part in all_answers(model, source) for one in part}
        assert {answer.ids for answer in pool} == answers.keys()
        np.testing.assert_allclose([answer.score for answer in pool],
                                   sorted(answers.values(), reverse=True), rtol=1e-12)


def test_a_pool_divides_by_the_length_unless_told_otherwise():
    """The default of transformers, by which published models are decoded."""
    model, sources = Table(), [[3], [4, 3, 3], [3, 4]]
    of = [[[answer.score for answer in pool] for pool in pooled_beam_search(
        model, sources, PADDING, BEGIN, END, 2, LONGEST, **penalty)]
        for penalty in ({}, {"length_penalty": 1.0}, {"length_penalty": 2.0})]
    assert of[0] == of[1] != of[2]


def test_when_a_pool_is_full():
    """The longer a search goes on, the better is its best answer."""
    model, sources = Table(), [[3 + k % 2] * (1 + k // 2) for k in range(12)]
    best = []
    for early_stopping in (True, False, "never"):
        pools = pooled_beam_search(model, sources, PADDING, BEGIN, END, 2, LONGEST, 2.0,
                                   early_stopping)
        assert all(len(pool) == 2 for pool in pools)
        best.append(np.array([pool[0].score for pool in pools]))
    assert (best[0] <= best[1]).all() and (best[1] <= best[2]).all()
    assert (best[0] < best[2]).any() and (best[1] < best[2]).any()
    with pytest.raises(ValueError, match="early_stopping='maybe' is unknown"):
        pooled_beam_search(model, sources, PADDING, BEGIN, END, early_stopping="maybe")


def test_probabilities_of_all_answers_sum_to_one():
    """So that the list above is complete."""
    ended, cut = all_answers(Table(), [3])
    assert abs(sum(np.exp(hypothesis.log_p) for hypothesis in ended + cut) - 1) < 1e-12


def test_one_beam_is_greedy():
    model, sources = Table(), [[3 + k % 2] * (1 + k // 2) for k in range(20)]
    found, greedy = (write(model, sources, PADDING, BEGIN, END, max_tokens=6, **options)
                     for write, options in ((beam_search, dict(beams=1)), (greedy_search, {})))
    assert [answer.tolist() for answer in found] == [answer.tolist() for answer in greedy]
    assert {len(answer) for answer in greedy} > {0, 6}, "some are cut, some end"


def test_more_beams_find_likelier_answers_and_every_source_its_own():
    model, sources = Table(peak=0.7), [[3 + k % 2] * (1 + k // 2) for k in range(30)]

    def likelihoods(beams):
        answers = beam_search(model, sources, PADDING, BEGIN, END, beams, LONGEST, length_penalty=0)
        alone = [beam_search(model, [source], PADDING, BEGIN, END, beams, LONGEST,
                             length_penalty=0)[0].tolist() for source in sources]
        assert alone == [answer.tolist() for answer in answers]
        return np.array(
            [sum(log_softmax(model.logits(tuple(source), (BEGIN, *answer[:t])))[0][token]
                 for t, token in enumerate([*answer, END])) if len(answer) < LONGEST else np.nan
             for source, answer in zip(sources, answers)])

    one, five, all_ = likelihoods(1), likelihoods(5), likelihoods(V**LONGEST)
    ended = ~np.isnan(one)
    assert 3 < ended.sum() and not np.isnan(five).any()
    assert (one[ended] <= all_[ended] + 1e-12).all() and (five <= all_ + 1e-12).all()
    assert (five < all_).any()
    assert one[ended].mean() < five[ended].mean()


class Endless(Table):
    def logits(self, source, written):
        return super().logits(source, written) - 50 * (np.arange(V) == END)


def test_a_step_has_at_most_one_row_per_beam():
    model = Endless()
    answers = beam_search(model, [[3], [4]], PADDING, BEGIN, END, beams=3, max_tokens=8)
    assert model.most_rows == 6 and [len(answer) for answer in answers] == [8, 8]


def test_the_length_penalty_is_equation_14():
    short, long = Hypothesis((3,), -2.0, 2), Hypothesis((3, 4, 3, 4, 3), -2.5, 6)
    assert penalized(short, 0) == -2.0 > penalized(long, 0) == -2.5
    assert penalized(short, 1.0) < penalized(long, 1.0)
    assert abs(penalized(long, 0.6) + 2.5 / ((5 + 6) ** 0.6 / (5 + 1) ** 0.6)) < 1e-12


class TwoAnswers(Table):
    """EOS with probability 1/2; or token 3, and then EOS with probability `p`."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def logits(self, source, written):
        likely = {END: 0.5, 3: 0.5} if written == (BEGIN,) else {END: self.p, 4: 1 - self.p}
        return np.log([likely.get(token, 1e-9) for token in range(V)])


@pytest.mark.parametrize("ratio, best", [(1.15, [3]), (1.18, [])])
def test_the_length_of_an_answer_counts_its_end(ratio, best):
    """With alpha = 1, of lengths 1 and 2 and probabilities 1/2 and q, the longer one is better if
    log q / log(1/2) is below 7/6.
    """
    model = TwoAnswers(2 * 0.5 ** ratio)
    (found,) = beam_search(model, [[3]], PADDING, BEGIN, END, beams=2, max_tokens=3,
                           length_penalty=1)
    assert found.tolist() == best


def test_defaults_are_four_beams_a_penalty_of_0_6_and_64_tokens():
    """The first two as in Vaswani et al. (2017), section 6.1."""
    model, sources = Table(), [[3 + k % 2] * (1 + k // 2) for k in range(60)]

    def found(**options):
        answers = beam_search(model, sources, PADDING, BEGIN, END, **options)
        return [answer.tolist() for answer in answers]

    default = found()
    assert default == found(beams=4, max_tokens=64, length_penalty=0.6)
    assert default != found(beams=5) and default != found(length_penalty=1.6)
    endless = Endless()
    for write in (beam_search, greedy_search):
        (answer,) = write(endless, [[3]], PADDING, BEGIN, END)
        assert len(answer) == 64


@pytest.mark.parametrize("positions", ["sinusoidal", "t5"])
def test_an_encoder_decoder_gets_its_best_answer(positions, rng):
    config = EncoderDecoderConfig(vocab_size=V, context_length=8, n_layers=2, n_heads=2, d_model=16,
                                  positions=positions, dtype="float64")
    model, sources = EncoderDecoder(config, rng), [rng.integers(3, V, n) for n in (1, 5, 3)]
    for parameter in model.parameters():
        parameter.data += 0.3 * rng.standard_normal(parameter.data.shape)
    one = beam_search(model, sources, PADDING, BEGIN, END, beams=1, max_tokens=6)
    greedy = greedy_search(model, sources, PADDING, BEGIN, END, max_tokens=6)
    assert [answer.tolist() for answer in one] == [answer.tolist() for answer in greedy]
    found = beam_search(model, sources, PADDING, BEGIN, END, beams=200, max_tokens=3,
                        length_penalty=1.0)
    for source, answer in zip(sources, found):
        scores = {}
        for ids in [(), *product([0, 1, 3, 4], repeat=1), *product([0, 1, 3, 4], repeat=2)]:
            log_p, _ = log_softmax(model(source[None], np.array([len(source)]),
                                         np.array([[BEGIN, *ids]]))[0])
            scores[ids] = penalized(Hypothesis(ids,
                                               sum(log_p[t, token]
                                                   for t, token in enumerate([*ids, END])),
                                               len(ids) + 1), 1.0)
        assert tuple(answer.tolist()) == max(scores, key=scores.get)


@pytest.mark.parametrize("options, words",
                         [(dict(beams=0), "beams=0"), (dict(max_tokens=0), "max_tokens=0"),
                          (dict(length_penalty=-0.1), "length_penalty=-0.1"),
                          (dict(sources=[]), "at least one source"),
                          (dict(sources=[[3], []]), "none that is empty")])
def test_bad_options_are_errors(options, words):
    with pytest.raises(ValueError, match=words):
        beam_search(Table(), **{**dict(sources=[[3]], padding=PADDING, bos=BEGIN, eos=END),
                                **options})
