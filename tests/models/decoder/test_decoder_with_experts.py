"""Decoders with experts: the loss and its gradient, steps, training on threads, counts, settings
that do not fit.
"""

from dataclasses import replace

import numpy as np
import pytest
from patching import patched, slopes

from numformer import backend
from numformer import functional as F
from numformer.generation import generate
from numformer.layers import MixtureOfExperts
from numformer.layers.token_step import TokenStep
from numformer.analysis import count
from numformer.models import CONFIGS, Decoder, DecoderConfig
from numformer.models.decoder.caches import DecoderCache
from numformer.data import Batch, BlockStream
from numformer.training import Trainer, TrainingConfig, mean_loss
from numformer.verify.registry.cases import LossOf

SIZES = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, d_hidden=12,
             dtype="float64")
DROPLESS = DecoderConfig(**SIZES, n_experts=4, experts_per_token=2, feedforward="swiglu",
                         router_z_weight=0.1)


@pytest.mark.parametrize("kind, old, new", [
    (MixtureOfExperts, "if dauxiliary:", "if False:"),
    (MixtureOfExperts, "self.z_weight * dauxiliary", "self.balance_weight * dauxiliary"),
    (MixtureOfExperts, "self.balance_weight * dauxiliary", "self.balance_weight"),
    (Decoder, "blocks.backward(dx, saved_blocks, dauxiliary)",
     "blocks.backward(dx, saved_blocks)")])
def test_bugs_in_the_auxiliary_gradient_are_found(kind, old, new, rng, monkeypatch):
    """By the loss of a decoder with experts, as it is registered."""
    config = replace(DROPLESS, vocab_size=5, context_length=3, d_model=4, d_hidden=2)
    model, ids = Decoder(config, rng), rng.integers(0, 5, (2, 4))
    method = "features_backward" if kind is Decoder else "backward"
    found, expected = slopes(LossOf(model), [ids])
    assert found == pytest.approx(expected, rel=1e-11)
    monkeypatch.setattr(kind, method, patched(getattr(kind, method), old, new))
    found, expected = slopes(LossOf(model), [ids])
    assert abs(found - expected) > 1e-6 * abs(expected)


def test_the_loss_is_the_cross_entropy_and_the_auxiliary_losses(rng):
    model, ids = Decoder(DROPLESS, rng), rng.integers(0, 9, (2, 8))
    logits, saved = model.forward(ids[:, :-1])
    parts = [block.auxiliary_loss(s) for block, s in zip(model.blocks, saved[0][1])]
    assert len(parts) == 2 and min(parts) > 0.01
    loss, _ = model.loss((ids[:, :-1], ids[:, 1:]))
    expected = F.cross_entropy(logits, ids[:, 1:])[0] + sum(parts)
    assert loss == pytest.approx(expected, rel=1e-14)


def test_the_evaluation_loss_is_the_cross_entropy_alone(rng):
    """Not what training adds: the experts' auxiliary losses, label smoothing, z-loss."""
    model, ids = Decoder(DROPLESS, rng), rng.integers(0, 9, (2, 9))
    model.label_smoothing, model.z_loss = 0.2, 0.1
    batch = Batch(inputs=ids[:, :-1], targets=ids[:, 1:])
    alone = F.cross_entropy(model(batch.inputs), batch.targets)[0]
    assert model.evaluation_loss(batch) == pytest.approx(alone, rel=1e-14)
    assert alone < model.loss(batch)[0] - 0.05
    assert mean_loss(model, [batch]) == pytest.approx(alone, rel=1e-14)


@pytest.mark.parametrize("norm_first", [True, False])
def test_blocks_without_experts_have_no_auxiliary_loss(norm_first, rng):
    model = Decoder(DecoderConfig(**SIZES, norm_first=norm_first), rng)
    ids = rng.integers(0, 9, (2, 8))
    logits, saved = model.forward(ids)
    assert model.auxiliary_loss(saved[0]) == 0
    model.backward(logits, saved)
    plain = [parameter.grad.copy() for parameter in model.parameters()]
    model.zero_grad()
    model.backward(logits, saved, dauxiliary=3.0)
    assert all(np.array_equal(a, parameter.grad) for a, parameter in zip(plain, model.parameters()))


def test_steps_equal_the_forward_without_the_compiled_token_step(rng):
    model, ids = Decoder(DROPLESS, rng), rng.integers(0, 9, (2, 8))
    cache, logits = None, []
    for t in (slice(0, 3), slice(3, 4), slice(4, 8)):
        part, cache = model.step(ids[:, t], cache)
        logits.append(part)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), model(ids), rtol=1e-10, atol=1e-12)
    _, cache = model.step(ids[:1, :3])
    one, after = model.step(ids[:1, 3:4], cache)
    assert type(after) is DecoderCache
    assert TokenStep.of(model.blocks, model.norm, model.head) is None
    np.testing.assert_allclose(one[0, 0], model(ids[:1, :4])[0, 3], rtol=1e-10, atol=1e-12)
    text = [1, 2]
    for token in generate(model, np.array(text), 5, temperature=0):
        assert token == model(np.array([text]))[0, -1].argmax()
        text.append(token)


def test_later_tokens_do_not_change_earlier_logits(rng):
    for config in (DROPLESS, DecoderConfig(**SIZES, n_experts=4, capacity_factor=0.7)):
        model, ids = Decoder(config, rng), rng.integers(0, 9, (1, 8))
        changed = np.concatenate([ids[:, :5], rng.integers(0, 9, (1, 3))], axis=1)
        np.testing.assert_allclose(model(changed, rng)[:, :5], model(ids, rng)[:, :5], rtol=1e-12,
                                   atol=1e-15)


def test_training_does_not_depend_on_the_number_of_threads(rng):
    """Every shard has its own balance and capacity, whoever runs it; what it gives is added in the
    shards' order.
    """
    config = DecoderConfig(**{**SIZES, "dtype": "float32"}, n_experts=4, capacity_factor=1.2)
    ids, states = rng.integers(0, 9, 500), []
    for n in (1, 2):
        with backend.threads(n):
            stream = BlockStream(ids, 8, 4, seed=0)
            trainer = Trainer(Decoder(config, np.random.default_rng(0)), stream, [],
                              TrainingConfig(steps=4, warmup_steps=0))
            for _ in range(4):
                trainer.train_step()
            states.append(trainer.model.state_dict())
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


def test_mixtral_is_counted_without_allocation():
    costs = count(CONFIGS["mixtral-8x7b"])
    assert (abs(costs["parameters"] / 46.7e9 - 1) < 0.01
            and abs(costs["active_parameters"] / 12.9e9 - 1) < 0.01)


def test_every_other_block_has_experts_of_a_kind_of_their_own(rng):
    config = replace(DROPLESS, n_layers=4, experts_every=2, expert_feedforward="gelu")
    model = Decoder(config, rng)
    kinds = [type(block.feedforward).__name__ for block in model.blocks]
    assert kinds == ["GatedFeedForward", "MixtureOfExperts"] * 2
    assert type(model.blocks[1].feedforward.experts[0]).__name__ == "FeedForward"
    assert config.expert_layers == [False, True, False, True]
    idle = 2 * (2 * 16 * 12 + 12 + 16)                    # two experts of GELU with biases
    costs = count(config)
    assert costs["parameters"] - costs["active_parameters"] == 2 * idle
    ids = rng.integers(0, 9, (2, 9))
    loss, saved = model.loss((ids[:, :-1], ids[:, 1:]))
    auxiliary = sum(block.auxiliary_loss(each)
                    for block, each in zip(model.blocks, saved[0][1]))
    assert loss > auxiliary > 0


def test_one_expert_is_none_and_two_are_some():
    assert replace(DROPLESS, n_experts=1).expert_layers == [False, False]
    assert replace(DROPLESS, n_experts=2).expert_layers == [True, True]
    own = replace(DROPLESS, feedforward="swish", expert_feedforward="gelu")
    assert own.expert_layers == [True, True], "its own kind is not asked for experts"


def test_counts_equal_a_real_model(rng):
    model, costs = Decoder(DROPLESS, rng), count(DROPLESS)
    assert costs["parameters"] == sum(array.size for array in model.state_dict().values())
    C, F_ = 16, 12
    idle = 3 * C * F_ + 2 * F_ + C  # SwiGLU with biases; two of them in each of two blocks
    assert costs["parameters"] - costs["active_parameters"] == 2 * 2 * idle
    by_hand = 2 * (4 * C * C + C * 4 + 2 * 3 * C * F_) + C * 9
    assert costs["flops_per_token"] == 2 * by_hand + 2 * 4 * C * 4.5
    plain = count(DecoderConfig(**SIZES))
    assert plain["active_parameters"] == plain["parameters"]


@pytest.mark.parametrize("options, words", [
    (dict(n_experts=2, experts_per_token=3),
     "experts_per_token=3 experts for a token are more than the E=2 that there are; use "),
    (dict(n_experts=4, experts_per_token=1), "use gates_over='all' or experts_per_token=2"),
    (dict(n_experts=0), "n_experts=0"), (dict(experts_every=0), "experts_every=0"),
    (dict(n_experts=2, expert_feedforward="swish"), "expert_feedforward='swish'"),
    (dict(n_experts=2, feedforward="swish"), "feedforward='swish'"),
    (dict(n_experts=2.0), "n_experts=2.0"),
    (dict(n_experts=4, experts_per_token=0), "experts_per_token=0"),
    (dict(n_experts=4, capacity_factor=-1), "capacity_factor=-1"),
    (dict(n_experts=4, balance_weight=float("nan")), "balance_weight"),
    (dict(n_experts=4, router_z_weight=-0.1), "router_z_weight"),
    (dict(n_experts=4, gates_over="some"), "'chosen', 'all'")])
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError) as caught:
        DecoderConfig(**{**SIZES, **options})
    assert words in str(caught.value)
