"""Functions of JAX against our layers, where JAX is installed."""

import numpy as np
import pytest

from numformer.functional import CAUSAL
from numformer.layers import Linear, MultiHeadAttention
from numformer.testing import assert_layer_matches
from numformer.testing.layers import match

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 8))
P = {name: RNG.standard_normal((8, 8)).astype(np.float32) / 3 for name in ("wq", "wk", "wv", "wo")}


@pytest.fixture
def attention():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def attention(p, x, scale=0.5):
        B, T, C = x.shape
        q, k, v = ((x @ p[name]).reshape(B, T, 2, C // 2).transpose(0, 2, 1, 3)
                   for name in ("wq", "wk", "wv"))
        scores = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scale * q @ k.mT, -jnp.inf)
        return (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(B, T, C) @ p["wo"]
    return attention


@pytest.fixture
def ours():
    return MultiHeadAttention(8, 2, RNG, bias=False)


def test_an_attention(attention, ours, capsys):
    assert_layer_matches(attention, ours, [X], parameters=P, options={"pattern": CAUSAL})
    assert "  wq = query.weight\n" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="attention against MultiHeadAttention: y is wrong in"):
        assert_layer_matches(attention, ours, [X], parameters=P, options={"pattern": CAUSAL},
                             call=lambda f, p, x: f(p, x, scale=0.35))


def test_weights_of_the_other_order_are_found(attention, ours, capsys):
    theirs = {name: x.T.copy() for name, x in P.items()}
    assert_layer_matches(lambda p, x: attention({name: x.T for name, x in p.items()}, x), ours, [X],
                         parameters=theirs, options={"pattern": CAUSAL})
    assert "  wq = query.weight transposed\n" in capsys.readouterr().out


def test_an_object_with_its_parameters(attention, ours):
    class Model:
        def __init__(self):
            self.params = P

        def __call__(self, x):
            return attention(self.params, x)
    model = Model()
    assert_layer_matches(model, ours, [X], options={"pattern": CAUSAL})
    assert model.params is P


def test_a_gradient_that_is_stopped(attention, ours):
    import jax

    def stopped(p, x):
        return attention({**p, "wk": jax.lax.stop_gradient(p["wk"])}, x)
    with pytest.raises(AssertionError, match="the gradient of wk is wrong in 64 of 64"):
        assert_layer_matches(stopped, ours, [X], parameters=P, options={"pattern": CAUSAL})


def test_without_jax_a_function_is_refused(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numformer.testing.layers.jax_module", None)
    with pytest.raises(TypeError, match="has no backward, and JAX, which would derive it, is not"):
        match.assert_layer_matches(lambda p, x: x, Linear(8, 8, RNG), [X], parameters=P)


def test_an_object_without_parameters_is_refused():
    pytest.importorskip("jax")
    with pytest.raises(TypeError, match="no parameters are found in"):
        assert_layer_matches(lambda x: x, Linear(8, 8, RNG), [X])
