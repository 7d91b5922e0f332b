"""What the attention kernel refuses, and what goes to the reference instead."""

import numpy as np
import pytest

from numformer import backend
from numformer import functional as F
from numformer.functional import AttentionPattern
from random_attention import random

pytest.importorskip("numba")
from numformer.kernels.attention import flash as kernel  # noqa: E402  (needs Numba)


@pytest.mark.parametrize("change, error, words", [
    (lambda q, k, v: [x.astype(complex) for x in (q, k, v)], TypeError, "q is complex128"),
    (lambda q, k, v: (q, k, v.astype(complex)), TypeError, "v is complex128"),
    (lambda q, k, v: [x.astype(np.float16) for x in (q, k, v)], TypeError, "float16"),
    (lambda q, k, v: (q.astype(np.float32), k, v), TypeError, "k is float64"),
    (lambda q, k, v: [np.repeat(x, 40, axis=-1) for x in (q, k, v)], ValueError, "up to 256"),
    (lambda q, k, v: (q[:, :1], k, v), ValueError, "G=2"),
    (lambda q, k, v: (q, k[..., :4], v), ValueError, "D=8"),
    (lambda q, k, v: (q, k, v[:, :, :4]), ValueError, "S=70"),
    (lambda q, k, v: (q, k, [1.0]), TypeError, "v must be an array")])
def test_other_dtypes_wide_heads_and_wrong_shapes_are_refused(rng, change, error, words):
    with pytest.raises(error) as caught:
        kernel.scaled_dot_product_attention(*change(*random(rng)[:3]))
    assert words in str(caught.value)


@pytest.mark.parametrize("options, words", [
    (dict(scale=0.0), "scale=0.0"), (dict(scale=np.nan), "scale=nan"),
    (dict(softcap=-1.0), "softcap=-1.0"), (dict(slopes=np.ones(3)), "H=2"),
    (dict(bias=np.ones((2, 5))), "R=139"), (dict(dropout=1.0, seed=1), "dropout=1.0"),
    (dict(dropout=0.5, seed=-1), "seed=-1"),
    (dict(pattern=AttentionPattern(lengths=[71])), "S=70")])
@pytest.mark.parametrize("functions", [F, kernel], ids=["reference", "kernel"])
def test_bad_options_are_refused_by_reference_and_kernel(rng, functions, options, words):
    with pytest.raises(ValueError) as caught:
        functions.scaled_dot_product_attention(*random(rng)[:3], **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("change, error, words", [
    (lambda do: do[:, :, :10], ValueError, "T=70"), (lambda do: do[..., :4], ValueError, "D_V=8"),
    (lambda do: do[:, :1], ValueError, "H=2"),
    (lambda do: do.astype(np.float32), TypeError, "do is float32"),
    (lambda do: do.astype(complex), TypeError, "do is complex128"),
    (lambda do: do.astype(">f8"), TypeError, "do is >f8"),
    (lambda do: do.tolist(), TypeError, "do must be an array")])
def test_a_gradient_of_another_shape_or_dtype_is_refused(rng, change, error, words):
    q, k, v, do = random(rng)
    _, saved = kernel.scaled_dot_product_attention(q, k, v)
    with pytest.raises(error) as caught:
        kernel.scaled_dot_product_attention_backward(change(do), saved)
    assert words in str(caught.value)


@pytest.mark.parametrize("tasks", [0, -1, 2.0, None])
def test_a_number_of_tasks_that_is_not_positive_is_refused(rng, tasks):
    q, k, v, do = random(rng)
    with pytest.raises(ValueError, match="tasks="):
        kernel.scaled_dot_product_attention(q, k, v, tasks=tasks)
    _, saved = kernel.scaled_dot_product_attention(q, k, v)
    with pytest.raises(ValueError, match="tasks="):
        kernel.scaled_dot_product_attention_backward(do, saved, tasks=tasks)


def test_complex_arrays_go_to_the_reference(rng):
    q, k, v, _ = random(rng)
    bias = rng.standard_normal((2, 139)).astype(complex)
    _, (version, _) = backend.scaled_dot_product_attention(q, k, v, bias=bias)
    assert version is None
    _, (version, _) = backend.scaled_dot_product_attention(q, k, v, bias=bias.real.copy())
    assert version is kernel
    with pytest.raises(TypeError, match="bias is complex128"):
        kernel.scaled_dot_product_attention(q, k, v, bias=bias)
    with pytest.raises(TypeError, match="slopes"):
        backend.scaled_dot_product_attention(q, k, v, slopes=np.ones(2, complex))
