"""A complex step of something else than what real numbers compute, and a backward that fits it."""

import numpy as np

X = np.random.default_rng(5).standard_normal((3, 4))


def cube(x):
    """x ** 3, but x ** 2 for complex numbers."""
    return x ** 2 if np.iscomplexobj(x) else x ** 3


def rounded_for_reals(x):
    y = np.tanh(x)
    return y if np.iscomplexobj(x) else y * (1 + 1e-6)


def detached_for_reals(x, weight):
    """The same number at the point itself, as weight is 1 there, with another slope."""
    return x * (weight if np.iscomplexobj(weight) else weight ** 2)


def other_kind(x):
    """A complex y for real x."""
    return x + 0j


def small_branch(scale):
    return lambda x: np.tanh(x) + scale * x.real ** 2


def small_branch_backward(dy, x):
    return dy * (1 - np.tanh(x) ** 2)


def normalized(x):
    return x / np.linalg.norm(x)


def standardized(x):
    return (x - x.mean()) / np.sqrt(np.var(x) + 1e-5)


def conjugated(x):
    """x conj(x) is x ** 2 for real x."""
    return (x * np.conj(x)).real + x


def into_floats(x):
    y = np.empty(x.shape)
    y[...] = x ** 2
    return y


def scalar_by_float(x):
    return x * float(np.real(x.ravel()[0]))


def real_parameter(x, weight):
    return x * weight + 0.1 * weight.real ** 2


LOST = "the imaginary part is partly lost"

BUGS = [
    ("another function for real numbers", (cube, lambda dy, x: 2 * x * dy), [X], {},
     "something else for complex numbers"),
    ("real path off by 1e-6",
     (rounded_for_reals, lambda dy, x: dy * (1 - np.tanh(x) ** 2)), [X], {},
     "something else for complex numbers"),
    ("real path of another slope", (detached_for_reals, lambda dy, x, w: (dy * w, dy * x)),
     [X, np.ones((3, 4))], {}, "something else for complex numbers"),
    ("complex y", (other_kind, lambda dy, x: dy.real), [X], {}, "but is complex128"),
    ("x.real on a branch of 1e-2", (small_branch(1e-2), small_branch_backward), [X], {}, LOST),
    ("x.real on a branch of 1e-6", (small_branch(1e-6), small_branch_backward), [X], {}, LOST),
    ("x.real on a branch of 1e-9", (small_branch(1e-9), small_branch_backward), [X], {}, LOST),
    ("np.linalg.norm", (normalized, lambda dy, x: dy / np.linalg.norm(x)), [X], {}, LOST),
    ("np.var", (standardized, lambda dy, x: (dy - dy.mean()) / np.sqrt(np.var(x) + 1e-5)), [X], {},
     LOST),
    ("conj", (conjugated, lambda dy, x: dy.copy()), [X], {}, LOST),
    ("an array of floats on the way", (into_floats, lambda dy, x: 0 * dy), [X], {},
     "ComplexWarning"),
    ("float() of one number", (scalar_by_float, lambda dy, x: dy * x.flat[0]), [X], {}, LOST),
    ("real of a parameter", (real_parameter, lambda dy, x, w: (dy * w, dy * x)), [X, X + 3], {},
     LOST),
]
