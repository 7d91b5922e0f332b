"""Exercises on recurrent cells and on causal convolution."""

from numformer import functional as F
from numformer.verify.exercises.exercise import Exercise, sizes


def one_step(gates, parts=1, recurrent_bias=False, **options):
    def make(rng):
        B, C, width = sizes(rng, 3)
        arguments = {
            "x": rng.standard_normal((B, C)), "state": rng.standard_normal((B, parts * width)),
            "input_weight": 0.6 * rng.standard_normal((C, gates * width)),
            "recurrent_weight": 0.6 * rng.standard_normal((width, gates * width)),
            "bias": rng.standard_normal(gates * width)}
        return arguments, {**options, **({"recurrent_bias": rng.standard_normal(width)} if recurrent_bias else {})}
    return make


def slid(**options):
    def make(rng):
        B, T, K, C, width = sizes(rng, 5)
        T, K = max(T, K) + 1, min(T, K)
        x, weight, bias = (rng.standard_normal(shape) for shape in ((B, T, C), (K, C, width), width))
        return {"x": x, "weight": weight, "bias": bias}, options
    return make


CELL = ("x", "state", "input_weight", "recurrent_weight", "bias")
EXERCISES = {
    "rnn_cell": Exercise(F.rnn_cell, F.rnn_cell_backward, CELL, {"plain": one_step(1)}),
    "lstm_cell": Exercise(
        F.lstm_cell, F.lstm_cell_backward, CELL, {"plain": one_step(4, 2)},
        "A state is output and memory side by side, (B, 2F); the weights' blocks are input, forget and output gate, and candidate."),
    "gru_cell": Exercise(
        F.gru_cell, F.gru_cell_backward, (*CELL, "recurrent_bias"),
        {"plain": one_step(3), "reset_after=False": one_step(3, reset_after=False), "a recurrent bias": one_step(3, recurrent_bias=True)},
        "The weights' blocks are reset and update gate, and candidate; the reset gate stands behind the product."),
    "causal_convolution": Exercise(F.causal_convolution, F.causal_convolution_backward, ("x", "weight", "bias"), {
        "plain": slid(), "dilation=2": slid(dilation=2)}),
}
