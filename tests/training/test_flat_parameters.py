"""Parameters side by side in one vector: views, and chunks that cover everything once."""

import numpy as np
import pytest

from numformer import Parameter
from numformer.flat_parameters import CHUNK, SMALLEST, FlatParameters, cuts
from numformer.layers import FeedForward, Linear
from numformer.training import SGD, AdamW, Muon


def named(*shapes):
    return {f"p{k}": Parameter(np.arange(np.prod(shape), dtype=float).reshape(shape) + 10 * k)
            for k, shape in enumerate(shapes)}


def test_values_and_gradients_move_in_unchanged():
    parameters = named((2, 3), (), (4,), (0, 5))
    before = {name: p.data for name, p in parameters.items()}
    parameters["p2"].grad += 7
    flat = FlatParameters(parameters)
    assert flat.data.shape == flat.grad.shape == (11,)
    np.testing.assert_array_equal(flat.data, [0, 1, 2, 3, 4, 5, 10, 20, 21, 22, 23])
    np.testing.assert_array_equal(flat.grad, [0] * 7 + [7] * 4)
    for name, p in parameters.items():
        np.testing.assert_array_equal(p.data, before[name])
        assert p.data.shape == before[name].shape == p.grad.shape
        assert np.shares_memory(p.data, flat.data) or not p.data.size


def test_matrices_by_columns_and_read_only_zeros_move_in():
    columns = Parameter(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    zeros = Parameter(np.broadcast_to(np.zeros(()), (2, 2)))
    flat = FlatParameters({"columns": columns, "zeros": zeros})
    np.testing.assert_array_equal(flat.data, [0, 1, 2, 3, 4, 5, 0, 0, 0, 0])
    columns.data[1, 0] = 9
    assert flat.data[3] == 9


def test_what_is_assigned_later_is_adopted():
    parameters = named((2,), (3,))
    flat = FlatParameters(parameters)
    parameters["p1"].data = np.array([7.0, 8.0, 9.0])
    parameters["p0"].grad = np.array([1.0, 2.0])
    flat.adopt()
    np.testing.assert_array_equal(flat.data, [0, 1, 7, 8, 9])
    np.testing.assert_array_equal(flat.grad, [1, 2, 0, 0, 0])
    parameters["p1"].data[0] = 5
    assert flat.data[2] == 5


@pytest.mark.parametrize("kind", [SGD, AdamW, Muon])
def test_an_optimizer_moves_arrays_that_were_assigned_after_it_was_made(kind, rng):
    layers = [Linear(3, 2, np.random.default_rng(0), dtype=np.float64) for _ in range(2)]
    optimizers = [kind(layer) for layer in layers]
    for layer in layers:
        layer.weight.data[...], layer.weight.grad[...] = 2.0, 0.5
    layers[1].weight.data = layers[1].weight.data.copy()
    layers[1].weight.grad = layers[1].weight.grad.copy()
    for optimizer in optimizers:
        optimizer.step(0.1)
    assert (layers[0].weight.data != 2).all()
    np.testing.assert_array_equal(layers[0].weight.data, layers[1].weight.data)


def test_two_precisions_have_vectors_of_their_own(rng):
    layer = FeedForward(2, 3, "relu", rng)
    layer.output = Linear(3, 2, rng, dtype=np.float64)
    optimizer = SGD(layer)
    for p in layer.parameters():
        p.grad += 1
    optimizer.step(0.1)
    assert sorted(flat.data.dtype.name for flat in optimizer.flat) == ["float32", "float64"]
    assert [p.data.dtype.name for p in layer.parameters()] == 2 * ["float32"] + 2 * ["float64"]


def test_a_replica_has_gradients_of_its_own_and_the_same_values(rng):
    layer = Linear(2, 3, rng)
    flat = FlatParameters(dict(layer.named_parameters()))
    replica = layer.replica()
    gradient = flat.new_gradient(dict(replica.named_parameters()))
    replica.bias.grad += 1
    np.testing.assert_array_equal(gradient, [0] * 6 + [1] * 3)
    assert not flat.grad.any() and np.shares_memory(replica.weight.data, flat.data)


@pytest.mark.parametrize("size", [0, 1, SMALLEST, SMALLEST + 1, 10**5, 64 * CHUNK - 1, 65 * CHUNK])
def test_chunks_cover_everything_once(size):
    x = np.zeros(size)
    for start, stop in cuts(size):
        assert 0 < stop - start <= CHUNK
        x[start:stop] += 1
    assert (x == 1).all() and len(cuts(size)) <= max(64, -(-size // CHUNK))
