"""Distillation losses."""

FUNCTIONS = [
    ("distillation_loss_backward", "(np.exp(log_q) - p)", "np.exp(log_q)",
     "teacher's probabilities are not subtracted"),
    ("distillation_loss_backward", "float(dloss) * T / N", "float(dloss) / N",
     "factor T is missing"),
    ("distillation_loss_backward", "float(dloss) * T / N", "float(dloss) * T * T / N",
     "factor is T squared"),
    ("distillation_loss_backward", "float(dloss) * T / N", "float(dloss) * T",
     "mean over the vectors of logits is missing"),
    ("imitation_loss_backward", "(2 * float", "(float", "factor 2 of the square is missing"),
    ("imitation_loss_backward", " / difference.size", "", "mean over all elements is missing"),
]

LAYERS = [
    ("TinyBert.states_backward", "+ dstate", "+ 0 * dstate"),
    ("TinyBert.states_backward", "b.segments.backward(dx, saved_segments)", "pass"),
    ("TinyBert.loss_backward", "dstates[-1] = dstates[-1] + ", "dstates[-1] = "),
    ("TinyBert.loss_backward", "c.hidden_weight * dof_states", "dof_states"),
    ("TinyBert.loss_backward", "c.soft_weight * dtexts", "dtexts"),
    ("TinyBert.loss_backward", "c.attention_weight * dof_scores", "dof_scores"),
]
