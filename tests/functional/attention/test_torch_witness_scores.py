"""Score functions and relative positions against PyTorch, and against T5 of transformers."""

import math

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import MultiHeadAttention, RelativePositionBias, ScoreAttention, ShawPositions

torch = pytest.importorskip("torch")
from torch_copies import agree, close, random_layer, tensor  # noqa: E402  (needs PyTorch)

nn = torch.nn.functional
SHORT = AttentionPattern(lengths=[5, 2])


def additive(p, x, c):
    q, k = x @ p["query.weight"], c @ p["key.weight"]
    return torch.tanh(q[:, :, None] + k[:, None]) @ p["weight"]


def bilinear(p, x, c):
    x, c = (y.expand(2, 3, 5, 4).contiguous() for y in (x[:, :, None], c[:, None]))
    return nn.bilinear(x, c, p["weight"][None])[..., 0]


@pytest.mark.parametrize("score, theirs", [
    ("additive", additive), ("dot", lambda p, x, c: torch.bmm(x, c.mT)), ("general", bilinear),
    ("scaled_dot", lambda p, x, c: torch.bmm(x, c.mT) / 4 ** 0.5)])
def test_score_attention_equals_pytorch(score, theirs, rng):
    layer = random_layer(ScoreAttention(score, 4, 4, rng, dtype=np.float64), rng)
    inputs = [rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4))]
    agree(layer, inputs, lambda p, x, c: torch.softmax(theirs(p, x, c), -1) @ c, rng)


def test_scaled_dot_attention_with_a_mask_equals_pytorch(rng):
    """PyTorch's own attention of one head, whose context is key and value."""
    x, context = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4))
    layer = ScoreAttention("scaled_dot", 4, 4, rng, dtype=np.float64)
    leaves = [tensor(x), tensor(context)]
    y, saved = layer.forward(x, context, SHORT)
    mask = torch.tensor(SHORT.dense(3, 5)[:, 0])
    expected = nn.scaled_dot_product_attention(leaves[0], leaves[1], leaves[1], mask)
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    for gradient, leaf in zip(layer.backward(dy, saved), leaves, strict=True):
        close(gradient, leaf.grad)


@pytest.mark.parametrize("T, S, causal", [(6, 6, False), (3, 7, False), (7, 3, False),
                                          (6, 6, True), (3, 7, True)])
def test_positions_of_shaw_equal_the_equations_of_the_paper(T, S, causal, rng):
    """Equations 3 and 4, with the vectors of all pairs written out: (T, S, D)."""
    layer = random_layer(ShawPositions(4, 2, rng, dtype=np.float64), rng)
    distance = torch.arange(S) - torch.arange(S - T, S)[:, None]
    row = distance.clamp(-2, 2) + 2
    hidden = torch.zeros(T, S).masked_fill(distance > 0, -math.inf if causal else 0.0)

    def theirs(p, q, k, v):
        by_key = torch.einsum("bhid,bhjd->bhij", q, k)
        by_distance = torch.einsum("bhid,ijd->bhij", q, p["keys"][row])
        a = torch.softmax((by_key + by_distance) / 2 + hidden, -1)
        of_values = torch.einsum("bhij,bhjd->bhid", a, v)
        return of_values + torch.einsum("bhij,ijd->bhid", a, p["values"][row])

    class WithPattern:
        """The layer, with its pattern."""
        named_parameters, backward = layer.named_parameters, layer.backward

        @staticmethod
        def forward(*inputs):
            return layer.forward(*inputs, CAUSAL if causal else EVERYWHERE)

    inputs = [rng.standard_normal((2, 3, T, 4)), *rng.standard_normal((2, 2, 3, S, 4))]
    agree(WithPattern, inputs, theirs, rng)


# ---- T5, of transformers -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def t5():
    return pytest.importorskip("transformers.models.t5.modeling_t5")


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("n_buckets, max_distance", [(32, 128), (8, 12), (16, 300)])
def test_buckets_equal_those_of_t5(bidirectional, n_buckets, max_distance, t5):
    distance = np.arange(-500, 501)
    found = F.relative_position_buckets(distance, n_buckets, max_distance, bidirectional)
    expected = t5.T5Attention._relative_position_bucket(torch.tensor(distance), bidirectional,
                                                        n_buckets, max_distance)
    assert np.array_equal(found, expected.numpy())


@pytest.mark.parametrize("decoder", [False, True])
def test_attention_equals_that_of_t5(decoder, t5, rng):
    """Two layers that share the table of biases, without a scale."""
    config = t5.T5Config(d_model=8, d_kv=4, num_heads=2, relative_attention_num_buckets=8,
                         relative_attention_max_distance=10, is_decoder=decoder, dropout_rate=0.0)
    config._attn_implementation = "eager"
    table = RelativePositionBias(2, rng, 8, 10, bidirectional=not decoder, dtype=np.float64)
    ours = [random_layer(MultiHeadAttention(8, 2, rng, bias=False, positions=table, scale=1.0,
                                            dtype=np.float64), rng) for _ in range(2)]
    theirs = [t5.T5Attention(config, has_relative_attention_bias=i == 0, layer_idx=i).double()
              for i in range(2)]
    for one, other in zip(ours, theirs):
        for mine, its in zip((one.query, one.key, one.value, one.output),
                             (other.q, other.k, other.v, other.o)):
            its.weight.data = torch.tensor(mine.weight.data.T.copy())
    theirs[0].relative_attention_bias.weight.data = torch.tensor(table.weight.data.copy())

    x, pattern = rng.standard_normal((2, 20, 8)), CAUSAL if decoder else EVERYWHERE
    masked = torch.tensor(~pattern.dense(20, 20))
    leaf, mask = tensor(x), torch.zeros(20, 20).masked_fill(masked, -math.inf).double()
    h, bias, *_ = theirs[0](leaf, mask=mask[None, None])
    expected, *_ = theirs[1](h, mask=mask[None, None], position_bias=bias)
    h, saved_one = ours[0].forward(x, pattern=pattern)
    y, saved_two = ours[1].forward(h, pattern=pattern)
    close(y, expected, 1e-12)
    dy = rng.standard_normal(y.shape)
    expected.backward(torch.tensor(dy))
    close(ours[0].backward(ours[1].backward(dy, saved_two), saved_one), leaf.grad)
    close(table.weight.grad, theirs[0].relative_attention_bias.weight.grad)
    close(ours[0].query.weight.grad, theirs[0].q.weight.grad.T)
