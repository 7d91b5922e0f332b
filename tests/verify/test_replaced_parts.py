"""A part of a layer that is an instance of a subclass is used as it is, wherever the part runs.

A fused function reads the arrays of several parts and runs in their place. If one of them is a
subclass that computes something else, its arrays do not say what. So each part of each registered
layer and model is replaced by a subclass that doubles every other coordinate of what it returns.
"""

import copy

import numpy as np
import pytest

from marks import every
from numformer.functional import cross_entropy
from numformer.generation.smaller_weights import rounded_weights
from numformer.layers import (
    Dropout, FeedForward, LayerNorm, ParallelBlock, PlainBlock, ResidualBranch, RotaryPositions,
    ScoreAttention, TransformerBlock)
from numformer.layers.parallel.tensor_parallel import TensorParallel
from numformer.layers.positions.added import AddedPositions
from numformer.layers.positions.in_attention import AttentionPositions
from numformer.layers.token_step import UnknownPart
from numformer.models import Decoder, DecoderConfig
from numformer.parameter import Layer
from numformer.verify import LAYER_BOUND, MODEL_BOUND
from numformer.verify.jacobians import COMPLEX_STEP
from numformer.verify.registry import ESTIMATORS, LAYERS, LOSSES, MODELS
from numformer.verify.tensors import generic_direction, gradients_at, named_tensors, output_at

CASES = LAYERS + ESTIMATORS + MODELS + LOSSES
# What a layer calls of a part, if it is not `forward`
CALLED = [("TransformerBlock", ResidualBranch, "update"),
          ("ParallelBlock", ResidualBranch, "update"), ("AttentiveGRU", ScoreAttention, "attend"),
          ("PlainBlock", ResidualBranch, "update"), ("DETR", AddedPositions, "vectors"),
          ("ConcatenatedPositions", AddedPositions, "vectors")]
# The parts (class of the owner, name) that some outputs do not depend on: heads and projections of
# a loss, or what another method of the part computes
NOT_CALLED = {
    ("Bert", "head"), ("MaskedTokenHead", "linear"), ("MaskedTokenHead", "norm"),
    ("MaskedTokenHead", "lm_head"), ("Bert", "next_sentence"), ("Bert", "pooler"),
    ("ClassPooler", "linear"), ("ClassPooler", "pooling"), ("SentenceBert", "pair_head"),
    ("TinyBert", "hidden_projection"), ("TinyBert", "embedding_projection"),
    ("TinyBert", "backbone"), ("BertEncoder", "encoder"),             # its blocks, one by one
    ("DecoderClassifier", "backbone"), ("Decoder", "head"),           # its features
    ("SelfAttentionBranch", "sum_norm"), ("ResidualBranch", "sum_norm")}      # in parallel blocks
# Attention to a single key has the weight 1; units that are off; what BatchNorm subtracts
WITHOUT_EFFECT = {("MultiHeadAttention", name) for name in (
    "query", "key", "query_norm", "key_norm")} | {("FeedForward", "hidden"),
                                                  ("BertEncoder", "segments")}


def doubled_coordinates(y):
    """Every other coordinate of the last axis twice; of a tuple, in each of its arrays."""
    if isinstance(y, tuple):
        return tuple(map(doubled_coordinates, y))
    if not np.ndim(y):
        return 2 * y
    return y * np.where(np.arange(y.shape[-1]) % 2, 1, 2).astype(y.real.dtype)


def with_doubling(part, method):
    """A copy of a layer, over the same parameters, whose method and its backward are doubled."""
    kind, calls = type(part), []

    def forward(self, *inputs, **options):
        y, saved = getattr(kind, method)(self, *inputs, **options)
        calls.append(y)
        return doubled_coordinates(y), saved

    def backward(self, dy, saved, *more, **options):
        return getattr(kind, name)(self, doubled_coordinates(dy), saved, *more, **options)

    name = "backward" if method == "forward" else f"{method}_backward"
    replaced = copy.copy(part)
    replaced.__class__ = type(f"Doubled{kind.__name__}", (kind,), {method: forward, name: backward})
    return replaced, calls


def method_of(owner, part):
    """What an owner calls of a part."""
    if isinstance(part, AttentionPositions):
        tiled = getattr(owner, "tiled", None) is not None
        return "encode" if tiled or isinstance(part, RotaryPositions) else "attend"
    return next((method for name, kind, method in CALLED
                 if type(owner).__name__ == name and isinstance(part, kind)), "forward")


def places(part, owner=None, key=None, found=None):
    """{(class of the owner, name, class of the part): [(container, key, part, method), ...]}."""
    found = {} if found is None else found
    if isinstance(part, Layer):
        children = vars(part)
    else:
        children = part if isinstance(part, dict) else dict(enumerate(part))
    holder = part if isinstance(part, Layer) else owner
    for name, child in children.items():
        said = name if isinstance(part, Layer) else key
        if isinstance(child, Layer) and hasattr(type(child), "forward"):
            kinds = type(holder).__name__, said, type(child).__name__
            into = vars(part) if isinstance(part, Layer) else part
            found.setdefault(kinds, []).append((into, name, child, method_of(holder, child)))
        if isinstance(child, (Layer, dict, list)):
            places(child, holder, said, found)
    return found


def replaced(layer, kinds):
    """Replace all parts of one kind, at all their places; the lists of their calls."""
    found = places(tree_of(layer))
    copies = {}
    for _, _, part, method in found[kinds]:
        copies.setdefault(id(part), with_doubling(part, method))
    for into, name, part, _ in sum(found.values(), []):
        if id(part) in copies:
            into[name], _ = copies[id(part)]
    return [calls for _, calls in copies.values()]


def tree_of(layer):
    return getattr(layer, "model", layer)                             # of `LossOf`


@pytest.mark.parametrize("case", [*every(5, LAYERS + ESTIMATORS), *every(15, MODELS + LOSSES)],
                         ids=lambda case: case.name)
def test_subclasses_of_parts_are_respected(case):
    """The output changes, and the gradient is that of the changed layer."""
    inputs = case.inputs()
    before = output_at(case.layer(), inputs, case.options, {})
    for kinds in places(tree_of(case.layer())):
        layer = case.layer()
        calls = replaced(layer, kinds)
        y = output_at(layer, inputs, case.options, {})
        if np.array_equal(y, before):
            assert kinds[:2] in (WITHOUT_EFFECT if any(calls) else NOT_CALLED), kinds
            continue
        rng = np.random.default_rng(0)
        dy = np.float64(0.7) if y.ndim == 0 else rng.standard_normal(y.shape)
        tensors = named_tensors(layer, inputs)
        gradients = gradients_at(layer, inputs, case.options, {}, dy)
        directions = generic_direction(tensors, rng)
        z = output_at(layer, inputs, case.options, {
            name: x + 1j * COMPLEX_STEP * directions[name] for name, x in tensors.items()})
        np.testing.assert_allclose(z.real, y, rtol=1e-9, atol=1e-9, err_msg=str(kinds))
        if case in ESTIMATORS:
            continue
        terms = np.concatenate([(gradients[name] * directions[name]).ravel() for name in tensors])
        slope = (dy * z.imag).sum() / COMPLEX_STEP
        bound = LAYER_BOUND if case in LAYERS else MODEL_BOUND
        assert abs(terms.sum() - slope) <= bound * case.condition * np.abs(terms).sum(), kinds


def decoder(**options):
    config = DecoderConfig(vocab_size=7, context_length=8, n_layers=2, n_heads=2, d_model=8,
                           **options)
    return Decoder(config, np.random.default_rng(0))


DECODERS = {"gpt": {}, "llama": dict(positions="rotary", norm="rms_norm", feedforward="swiglu",
                                     query_key_norm=True, tied=False)}


@pytest.mark.parametrize("options", DECODERS.values(), ids=DECODERS)
def test_steps_of_a_decoder_respect_subclasses(options):
    """The compiled step reads all weights: it has to leave such a model to the layers.

    Parts with a step of their own, and dropout, which no step has, are left out.
    """
    ids = np.array([[1, 2, 3, 4]])
    for kinds, found in places(decoder(**options)).items():
        if any(hasattr(part, "step") or isinstance(part, Dropout) for _, _, part, _ in found):
            continue
        model = decoder(**options)
        replaced(model, kinds)
        _, cache = model.step(ids[:, :3])
        logits, _ = model.step(ids[:, 3:], cache)
        np.testing.assert_allclose(logits[:, -1], model(ids)[:, -1], atol=1e-5, err_msg=str(kinds))


def test_the_head_of_a_loss_may_be_a_subclass():
    """Tied or not: the loss is that of the logits of `forward`."""
    batch = np.array([[1, 2, 3]]), np.array([[2, 3, 4]])
    for options in DECODERS.values():
        model = decoder(**options)
        replaced(model, ("Decoder", "head", "LMHead"))
        loss, _ = model.loss(batch)
        assert float(loss) == pytest.approx(float(cross_entropy(model(batch[0]), batch[1])[0]))
        assert float(loss) != pytest.approx(float(decoder(**options).loss(batch)[0]), abs=1e-6)


def test_blocks_refuse_branches_whose_forward_they_do_not_call():
    class Doubled(ResidualBranch):
        def forward(self, *inputs, **options):
            y, saved = super().forward(*inputs, **options)
            return 2 * y, saved

    branch = Doubled(LayerNorm(4), FeedForward(4, 8, "gelu", np.random.default_rng(0)))
    for kind in (TransformerBlock, ParallelBlock, PlainBlock):
        with pytest.raises(TypeError, match="feedforward is a Doubled with a forward of its own"):
            kind(feedforward=branch)


def test_weights_of_fewer_bits_refuse_subclasses():
    for owner, name in [("FeedForward", "hidden"), ("MultiHeadAttention", "query")]:
        model = decoder()
        replaced(model, (owner, name, "Linear"))
        with pytest.raises(UnknownPart, match="does not know a part"):
            with rounded_weights(model, "int8"):
                pass


def test_tensor_parallelism_refuses_subclasses():
    layer = FeedForward(4, 8, "gelu", np.random.default_rng(0))
    replaced(layer, ("FeedForward", "hidden", "Linear"))
    with pytest.raises(TypeError, match="DoubledLinear may compute anything"):
        TensorParallel(layer, 0, 2, total=lambda y: y)
