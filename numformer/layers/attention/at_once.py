"""Queries, keys and values of the usual parts in one function, which has a compiled version."""

from numformer.backend import head_projections, head_projections_backward_accumulate
from numformer.layers.dropout import Identity
from numformer.layers.linear import are_plain
from numformer.layers.normalization import RMSNorm


def projects_at_once(attention):
    """Whether `head_projections` knows all parts: by class, as a subclass may do anything."""
    one, two = attention.query_norm, attention.key_norm
    return (attention.positions.only_rotates and attention.d_value == attention.d_head
            and are_plain(attention.query, attention.key, attention.value)
            and (type(one) is type(two) is Identity
                 or type(one) is type(two) is RMSNorm and one.epsilon == two.epsilon
                 and one.epsilon_inside and two.epsilon_inside))


def project_at_once(attention, x):
    """(q, k, v) of x and what the backward needs: `head_projections` of a layer's arrays."""
    a = attention
    return head_projections(
        x, *a.query.arrays, *a.key.arrays, *a.value.arrays, *_norms(a, "arrays"), a.d_head,
        a.positions.rotation(0, x.shape[1], x.real.dtype), getattr(a.query_norm, "epsilon", 0.0))


def project_at_once_backward(attention, dheads, saved):
    """The gradient of x; those of the parameters are added."""
    a = attention
    return head_projections_backward_accumulate(
        dheads, saved, *a.query.gradients, *a.key.gradients, *a.value.gradients,
        *_norms(a, "gradients"))


def _norms(attention, name):
    """The arrays or gradients of the RMSNorms of queries and keys; None for `Identity`."""
    return [getattr(norm, name, (None,))[0] for norm in (attention.query_norm, attention.key_norm)]
