"""What a student may be asked for: every function pair, on random problems whose sizes all differ, so that no two axes pass for one.

An exercise has levels, the plain one first. Options belong to a level; who has not got so far is not asked for them.
"""

import inspect
from dataclasses import dataclass

import numpy as np

from numformer import functional as F


@dataclass(frozen=True)
class Exercise:
    """A pair of functions, which arguments have a gradient, and makers of problems.

    A maker takes a random generator and returns the arguments by name, in the order of the function, and the options. The
    note is told to whoever is wrong.
    """

    function: object
    gradient: object
    wanted: tuple
    levels: dict
    note: str = ""


@dataclass(frozen=True)
class Problem:
    """One random problem, made anew from its seed whenever it is asked for: what a student writes into is nobody else's."""

    exercise: Exercise
    level: str
    seed: int

    def arguments(self):
        """(arguments by name, options)."""
        return self.exercise.levels[self.level](np.random.default_rng(self.seed))

    def truth(self):
        """(y, saved, dy, gradients by name)."""
        arguments, options = self.arguments()
        y, saved = self.exercise.function(*arguments.values(), **options)
        dy = np.random.default_rng(self.seed + 1).standard_normal(np.shape(y)) if np.shape(y) else 1.7
        gradients = self.exercise.gradient(dy, saved)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return y, saved, dy, dict(zip((f"d{name}" for name in self.exercise.wanted), gradients))


def sizes(rng, n):
    """So many different sizes, 2 to 7 and in any order."""
    return (int(size) for size in rng.permutation(np.arange(2, 8))[:n])


def pointwise(**options):
    def make(rng):
        rows, columns = sizes(rng, 2)
        return {"x": 1.5 * rng.standard_normal((rows, columns))}, options
    return make


def large(rng):
    rows, columns = sizes(rng, 2)
    return {"x": 800 + 300 * rng.standard_normal((rows, columns))}, {}


def one_number(function, gradient, **options):
    levels = {"plain": pointwise()}
    levels.update({f"{name}={value}": pointwise(**{name: value}) for name, value in options.items()})
    return Exercise(function, gradient, ("x",), levels)


def masked(rng):
    rows, columns = sizes(rng, 2)
    mask = rng.random((rows, columns)) < 0.6
    mask[:, 0], mask[0, 1] = True, False
    return {"x": rng.standard_normal((rows, columns))}, {"mask": mask}


def linear(square):
    def make(rng):
        B, T, C, F = sizes(rng, 4)
        F = C if square else F
        return {"x": rng.standard_normal((B, T, C)), "weight": rng.standard_normal((C, F)), "bias": rng.standard_normal(F)}, {}
    return make


def normed(*more, **options):
    def make(rng):
        B, T, C = sizes(rng, 3)
        C += 2
        arguments = {"x": 2 * rng.standard_normal((B, T, C)) + 0.7, "gain": rng.standard_normal(C)}
        return {**arguments, **{name: rng.standard_normal(C) for name in more}}, options
    return make


def classified(ignored=False, **options):
    def make(rng):
        B, T, V = sizes(rng, 3)
        targets = rng.integers(0, V, (B, T))
        targets[0, 0] = F.IGNORE_INDEX if ignored else targets[0, 0]
        return {"logits": 2 * rng.standard_normal((B, T, V)), "targets": targets}, options
    return make


def attended(grouped=False, causal=False, **options):
    def make(rng):
        B, H, T, S, D = sizes(rng, 5)
        G = H
        if grouped:
            G, H = 2, 4
        T, S = min(T, S), max(T, S)
        arguments = {"q": rng.standard_normal((B, H, T, D)), "k": rng.standard_normal((B, G, S, D)), "v": rng.standard_normal((B, G, S, D))}
        return arguments, {**options, **({"pattern": F.CAUSAL} if causal else {})}
    return make


def looked_up(rng):
    B, T, V, C = sizes(rng, 4)
    ids = rng.integers(0, V, (B, T))
    ids[0, :2] = ids[-1, -1]                                          # the same id in several places
    return {"ids": ids, "weight": rng.standard_normal((V, C))}, {}


def turned(**options):
    def make(rng):
        B, T, half = sizes(rng, 3)
        cosine, sine = F.rotary_angles(3, 3 + T, 2 * half)
        return {"x": rng.standard_normal((B, T, 2 * half)), "cosine": cosine, "sine": sine}, options
    return make


def sloped(rng):
    B, H, T, S = sizes(rng, 4)
    return {"scores": rng.standard_normal((B, H, T, S)), "slopes": F.alibi_slopes(H)}, {}


def capped(rng):
    rows, columns = sizes(rng, 2)
    return {"x": 2 * rng.standard_normal((rows, columns)), "cap": 1.5}, {}


def by_distance(rng):
    B, H, T, S = sizes(rng, 4)
    return {"scores": rng.standard_normal((B, H, T, S)), "bias": rng.standard_normal((H, T + S - 1))}, {}


def by_bucket(rng):
    H, T, S = sizes(rng, 3)
    return {"table": rng.standard_normal((8, H)), "T": T + 8, "S": S + 8, "max_distance": 12}, {}


def gated(**options):
    def make(rng):
        rows, columns = sizes(rng, 2)
        g, h = 1.5 * rng.standard_normal((2, rows, columns))
        return {"g": g, "h": h}, options
    return make


def added(rng):
    (arguments, _), rows = silenced(rng), rng.integers(2, 8)
    branch = rng.standard_normal(arguments["x"].shape)
    return {"x": arguments["x"], "branch": branch, "rate": 0.4, "rng": np.random.default_rng(rows)}, {}


def silenced(rng):
    rows, columns = sizes(rng, 2)
    return {"x": rng.standard_normal((rows + 2, columns + 2)), "rate": 0.4, "rng": np.random.default_rng(rows)}, {}


MASK = "What stays is dropout_mask(dropout_seed(rng), x.shape, rate), both of numformer.functional."
EXERCISES = {
    "linear": Exercise(F.linear, F.linear_backward, ("x", "weight", "bias"),
                       {"as many inputs as outputs": linear(True), "other widths": linear(False)}),
    "softmax": Exercise(F.softmax, F.softmax_backward, ("x",), {
        "plain": pointwise(), "axis=0": pointwise(axis=0), "a mask": masked, "scores near 1000": large}),
    "log_softmax": Exercise(F.log_softmax, F.log_softmax_backward, ("x",), {
        "plain": pointwise(), "axis=0": pointwise(axis=0), "scores near 1000": large}),
    "cross_entropy": Exercise(F.cross_entropy, F.cross_entropy_backward, ("logits",), {
        "plain": classified(), "an ignored target": classified(ignored=True),
        "label_smoothing=0.2": classified(label_smoothing=0.2), "z_loss=0.1": classified(z_loss=0.1)}),
    "relu": one_number(F.relu, F.relu_backward),
    "relu_squared": one_number(F.relu_squared, F.relu_squared_backward),
    "gelu": one_number(F.gelu, F.gelu_backward),
    "gelu_tanh": one_number(F.gelu_tanh, F.gelu_tanh_backward),
    "sigmoid": one_number(F.sigmoid, F.sigmoid_backward),
    "swish": one_number(F.swish, F.swish_backward, beta=1.7),
    "silu": one_number(F.silu, F.silu_backward),
    "layer_norm": Exercise(F.layer_norm, F.layer_norm_backward, ("x", "gain", "shift"), {
        "plain": normed("shift"), "epsilon_inside=False": normed("shift", epsilon=0.3, epsilon_inside=False)}),
    "rms_norm": Exercise(F.rms_norm, F.rms_norm_backward, ("x", "gain"), {
        "plain": normed(), "epsilon_inside=False": normed(epsilon=0.3, epsilon_inside=False)}),
    "scaled_dot_product_attention": Exercise(
        F.scaled_dot_product_attention, F.scaled_dot_product_attention_backward, ("q", "k", "v"), {
            "plain": attended(), "a causal pattern": attended(causal=True), "scale=0.3": attended(scale=0.3),
            "grouped heads": attended(grouped=True)}),
    "embedding": Exercise(F.embedding, F.embedding_backward, ("weight",), {"plain": looked_up}),
    "rotary": Exercise(F.rotary, F.rotary_backward, ("x",), {"plain": turned(), "interleaved": turned(layout="interleaved")}),
    "alibi": Exercise(F.alibi, F.alibi_backward, ("scores",), {"plain": sloped}),
    "soft_cap": Exercise(F.soft_cap, F.soft_cap_backward, ("x",), {"plain": capped}),
    "add_by_distance": Exercise(F.add_by_distance, F.add_by_distance_backward, ("scores", "bias"), {"plain": by_distance}),
    "relative_position_bias": Exercise(F.relative_position_bias, F.relative_position_bias_backward, ("table",), {"plain": by_bucket}),
    "dropout": Exercise(F.dropout, F.dropout_backward, ("x",), {"plain": silenced},
                        MASK),
    "residual_dropout": Exercise(F.residual_dropout, F.residual_dropout_backward, ("x", "branch"), {"plain": added}, MASK),
    "gated_linear_unit": Exercise(F.gated_linear_unit, F.gated_linear_unit_backward, ("g", "h"), {
        "plain": gated(), 'activation="relu"': gated(activation="relu")}),
}
SHORT = {"attention": "scaled_dot_product_attention"}                 # names that may be used for longer ones


def find_exercise(name):
    """(the name in full, its exercise, whether the backward is meant)."""
    base, backward = (name[:-len("_backward")], True) if isinstance(name, str) and name.endswith("_backward") else (name, False)
    base = SHORT.get(base, base)
    if base not in EXERCISES:
        raise ValueError(f"check: {name!r} is no exercise; there are {', '.join([*SHORT, *EXERCISES])}, each also with _backward.")
    return base + "_backward" * backward, EXERCISES[base], backward


def accepts(function, option):
    """Whether a function takes a keyword argument of this name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind == parameter.VAR_KEYWORD or parameter.name == option and parameter.kind != parameter.POSITIONAL_ONLY
               for parameter in parameters)


def defaults_wanted(function, exercise, given):
    """Our defaults for what a student's function requires beyond the arguments: {name: default}."""
    try:
        theirs = list(inspect.signature(function).parameters.values())[given:]
        ours = inspect.signature(exercise.function).parameters
    except (TypeError, ValueError):
        return {}
    return {p.name: ours[p.name].default for p in theirs if p.default is p.empty and p.name in ours and p.kind in (
        p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and ours[p.name].default is not p.empty}
