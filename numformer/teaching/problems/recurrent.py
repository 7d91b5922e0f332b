"""Problems on recurrent cells and on causal convolution."""

from numformer import functional as F
from numformer.teaching.problems.edges import left_out
from numformer.teaching.problems.problem import FunctionProblem, Level, sizes


def one_step(gates, parts=1, recurrent_bias=False, **options):
    def make(rng):
        B, C, width = sizes(rng, 3)
        arguments = {
            "x": rng.standard_normal((B, C)), "state": rng.standard_normal((B, parts * width)),
            "input_weight": 0.6 * rng.standard_normal((C, gates * width)),
            "recurrent_weight": 0.6 * rng.standard_normal((width, gates * width)),
            "bias": rng.standard_normal(gates * width)}
        return arguments, {**options,
                           **({"recurrent_bias": rng.standard_normal(width)} if recurrent_bias
                              else {})}
    return make


def convolved(**options):
    def make(rng):
        B, T, K, C, width = sizes(rng, 5)
        T, K = max(T, K) + 1, min(T, K)
        x, weight, bias = (rng.standard_normal(shape)
                           for shape in ((B, T, C), (K, C, width), width))
        return {"x": x, "weight": weight, "bias": bias}, options
    return make


def shorter_than_window(rng):
    B, T, K, C, width = sizes(rng, 5)
    T, K = min(T, K), max(T, K) + 1
    x, weight, bias = (rng.standard_normal(shape)
                       for shape in ((B, T, C), (K, C, width), width))
    return {"x": x, "weight": weight, "bias": bias}, {}


def cell(*arguments):
    """The levels that every cell has."""
    return {"plain": one_step(*arguments), "no bias": left_out(one_step(*arguments), "bias")}


SHORT = "The sequence is shorter than the kernel here: T < K."
CELL = ("x", "state", "input_weight", "recurrent_weight", "bias")
PROBLEMS = {
    "rnn_cell": FunctionProblem(F.rnn_cell, F.rnn_cell_backward, CELL, cell(1)),
    "lstm_cell": FunctionProblem(
        F.lstm_cell, F.lstm_cell_backward, CELL, cell(4, 2),
        "A state is output and memory concatenated, (B, 2F). The blocks of the weights are input, "
        "forget and output gate, and candidate."),
    "gru_cell": FunctionProblem(
        F.gru_cell, F.gru_cell_backward, (*CELL, "recurrent_bias"),
        {**cell(3), "a recurrent bias": one_step(3, recurrent_bias=True)},
        "The blocks of the weights are reset and update gate, and candidate. The reset gate "
        "multiplies the product of state and weight."),
    "gru_cell_reset_before": FunctionProblem(
        F.gru_cell_reset_before, F.gru_cell_reset_before_backward, CELL, cell(3),
        "The blocks of the weights are reset and update gate, and candidate. The reset gate "
        "multiplies the state, before the product with the weight."),
    "causal_convolution": FunctionProblem(
        F.causal_convolution, F.causal_convolution_backward, ("x", "weight", "bias"),
        {"plain": convolved(), "dilation=2": convolved(dilation=2),
         "no bias": left_out(convolved(), "bias"), "T < K": Level(shorter_than_window, SHORT)}),
}
