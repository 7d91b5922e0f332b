"""Distillation losses."""

LAYERS = [
    ("TinyBert.states_backward", "+ dstate", "+ 0 * dstate"),
    ("TinyBert.states_backward", "b.input.backward(dx, saved_input)", "pass"),
    ("TinyBert.loss_backward", "dstates[-1] = dstates[-1] + ", "dstates[-1] = "),
    ("TinyBert.loss_backward", "c.hidden_weight * dof_states", "dof_states"),
    ("TinyBert.loss_backward", "c.soft_weight * dtexts", "dtexts"),
    ("TinyBert.loss_backward", "c.attention_weight * dof_scores", "dof_scores"),
]
