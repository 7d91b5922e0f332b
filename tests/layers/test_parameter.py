"""Parameter and Layer: names, ties, state, replicas."""

import numpy as np
import pytest

from numformer import Layer, Parameter
from numformer.layers import Embedding, LearnedPositions, Linear, LMHead, MultiHeadAttention
from numformer.models import CONFIGS, Decoder, DecoderConfig
from numformer.parameter import normal, some_of


def small(**switches):
    return Decoder(DecoderConfig(vocab_size=5, context_length=4, n_layers=2, n_heads=1, d_model=4,
                                 **switches), np.random.default_rng(0))


class Nest(Layer):
    """Sublayers in a list, a dict and a tuple; one of them twice."""

    def __init__(self, rng):
        shared = Linear(2, 2, rng, bias=False)
        self.several = [shared, Linear(2, 2, rng)]
        self.named = {"a": shared}
        self.pair = (Parameter(np.ones(3)), 7)
        self.setting = 1.5


def test_names_follow_the_attributes_and_each_object_comes_once(rng):
    names = [name for name, _ in Nest(rng).named_parameters()]
    assert names == ["several.0.weight", "several.1.weight", "several.1.bias", "pair.0"]
    assert [name for name, _ in Nest(rng).named_layers()] == ["", "several.0", "several.1"]


def test_a_tied_parameter_is_named_counted_saved_and_stepped_once():
    tied, untied = small(tied=True), small(tied=False)
    assert tied.head.weight is tied.embedding.weight
    assert "head.weight" not in tied.state_dict() and "head.weight" in untied.state_dict()
    assert len(untied.parameters()) == len(tied.parameters()) + 1


def test_a_tied_gradient_is_the_sum_of_both_uses(rng):
    table = Embedding(3, 2, rng)
    head = LMHead(table.weight)
    _, saved_table = table.forward(np.array([0, 2]))
    y, saved_head = head.forward(np.ones((1, 2), np.float32))
    table.backward(np.ones((2, 2), np.float32), saved_table)
    head.backward(np.ones_like(y), saved_head)
    assert table.weight.grad.tolist() == [[2, 2], [1, 1], [2, 2]]


def test_zero_grad_sets_all_gradients_to_zero():
    model = small()
    for parameter in model.parameters():
        parameter.grad += 1
    model.zero_grad()
    assert all((parameter.grad == 0).all() for parameter in model.parameters())


def test_state_dict_is_a_copy():
    model = small()
    state = model.state_dict()
    state["embedding.weight"][:] = 7
    assert not (model.embedding.weight.data == 7).any()


def test_load_state_dict_names_entries_that_do_not_fit():
    model, before = small(), small().state_dict()
    with pytest.raises(ValueError, match=r"missing: norm.weight; unexpected: extra"):
        model.load_state_dict({**{name: array
                                  for name, array in before.items() if name != "norm.weight"},
                               "extra": np.zeros(1)})
    with pytest.raises(ValueError, match=r"norm.weight has shape \(5,\), but must have \(4,\)"):
        model.load_state_dict({**{name: array + 1 for name, array in before.items()},
                               "norm.weight": np.zeros(5)})
    with pytest.raises(TypeError, match="norm.weight must be an array of floats, but is int64"):
        model.load_state_dict({**before, "norm.weight": np.zeros(4, int)})
    with pytest.raises(ValueError, match="missing: .* and [0-9]+ more"):
        model.load_state_dict({})
    assert all(np.array_equal(before[name], array)
               for name, array in model.state_dict().items()), "nothing is loaded then"


def test_a_message_names_at_most_five():
    names = list("abcdefg")
    assert [some_of(names[:n]) for n in (0, 1, 5, 6, 7)] == [
        "none", "a", "a, b, c, d, e", "a, b, c, d, e and 1 more", "a, b, c, d, e and 2 more"]


def test_load_state_dict_casts_to_the_parameters_dtype():
    model = small()
    model.load_state_dict({name: array.astype(np.float64)
                           for name, array in model.state_dict().items()})
    assert {array.dtype for array in model.state_dict().values()} == {np.dtype(np.float32)}


def test_a_replica_shares_data_and_has_gradients_of_its_own():
    model = small(tied=True)
    replica = model.replica()
    assert replica.head.weight is replica.embedding.weight
    assert replica.blocks[0] is not model.blocks[0]
    for mine, theirs in zip(model.parameters(), replica.parameters(), strict=True):
        assert mine is not theirs and mine.data is theirs.data
        theirs.grad += 1
        assert (mine.grad == 0).all()
    assert repr(replica) == repr(model)


def test_a_gradient_takes_no_memory_before_it_is_used():
    assert Parameter(np.broadcast_to(np.float32(0), (10**6, 10**6))).data.nbytes == 4 * 10**12


@pytest.mark.parametrize("rng", [0, "seed", np.random])
def test_a_seed_is_refused_as_generator(rng):
    with pytest.raises(TypeError, match="default_rng"):
        normal(rng, (2,), 1.0, np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex128])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match="float32 or float64"):
        Linear(2, 2, np.random.default_rng(0), dtype=dtype)


def test_learned_positions_refuse_a_negative_start(rng):
    with pytest.raises(ValueError, match="start=-1"):
        LearnedPositions(8, 4, rng).forward(np.zeros((1, 1, 4), np.float32), start=-1)


@pytest.mark.parametrize("sizes", [(0, 2), (2, -1), (2.5, 2), (True, 2)])
def test_bad_widths_are_named(sizes, rng):
    with pytest.raises(ValueError, match="whole number"):
        Linear(*sizes, rng)


def test_repr_lists_the_parts():
    parts = ("embedding=Embedding, positions=LearnedPositions, embedding_norm=Identity, "
             "dropout=Dropout")
    assert repr(small()).startswith(f"Decoder({parts}, blocks=2 x TransformerBlock")


def test_initial_weights_have_the_given_deviation(rng):
    assert abs(Linear(400, 300, rng).weight.data.std() - 0.05) < 0.001
    model = Decoder(DecoderConfig(vocab_size=300, context_length=4, n_layers=8, n_heads=4,
                                  d_model=64), rng)
    assert abs(model.embedding.weight.data.std() - 0.02) < 0.001
    assert abs(model.blocks[0].feedforward.hidden.weight.data.std() - 0.02) < 0.001
    assert abs(model.blocks[0].feedforward.output.weight.data.std() - 0.02 / 4) < 0.0005


def test_a_published_size_builds_without_memory():
    model = Decoder(CONFIGS["gpt3"], rng=None)
    assert model.blocks[0].feedforward.hidden.weight.data.strides == (0, 0)


class Foreign:
    """An array of another library."""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x if dtype is None else self.x.astype(dtype)


def test_a_layer_and_a_state_take_arrays_of_other_libraries(rng):
    layer, x = Linear(3, 2, rng, dtype=np.float64), rng.standard_normal((4, 3))
    assert np.array_equal(layer(Foreign(x)), layer(x))
    attention = MultiHeadAttention(4, 2, rng, dtype=np.float64)
    x, context = rng.standard_normal((2, 1, 3, 4))
    assert np.array_equal(attention(Foreign(x), context=Foreign(context)), attention(x, context))
    layer.load_state_dict({"weight": Foreign(np.ones((3, 2))), "bias": np.zeros(2)})
    assert (layer.weight.data == 1).all()
    for wrong, words in ((np.float64(1), "float64"), (Foreign(np.ones(3, int)), "int64")):
        with pytest.raises(TypeError, match=words):
            layer(wrong)
    with pytest.raises(ValueError, match="shape"):
        layer.load_state_dict({"weight": Foreign(np.ones((2, 3))), "bias": np.zeros(2)})


def test_a_layer_too_large_for_numpy_is_counted_by_its_shapes():
    """As any of 2 GiB is in a browser, where an address has 32 bits."""
    layer = Linear(2**33, 2**33, None, bias=False)
    shapes = {name: parameter.data.shape for name, parameter in layer.named_parameters()}
    assert shapes == {"weight": (2**33, 2**33)}
    weight = layer.weight.data
    assert (weight.size, weight.nbytes, weight.ndim) == (2**66, 2**68, 2)
    assert "(8589934592, 8589934592)" in repr(layer) and f"{2**66:,}" in layer._repr_html_()
    with pytest.raises(ValueError, match="weight cannot be loaded, because the model was built for "
                                         "counting only"):
        layer.load_state_dict({name: np.ones(1) for name in shapes})
    with pytest.raises((MemoryError, ValueError)):
        layer.allocate()
