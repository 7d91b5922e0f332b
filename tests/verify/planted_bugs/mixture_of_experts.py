"""Mixtures of experts."""

FUNCTIONS = [
    ("load_balance_loss_backward", "float(dloss)", "1.0", "dy is not used"),
    ("router_z_loss_backward, z_loss_backward", "/ len(lse)", "/ logits.size"),
    ("combine_experts_backward", "dproduct = dy[slots // k]", "dproduct = dy[np.sort(slots) // k]"),
]

LAYERS = [
    ("MixtureOfExperts.backward", "dtokens + self.router.backward(dlogits, saved_router)",
     "dtokens"),
    ("MixtureOfExperts.backward", "dtokens + self.router", "self.router"),
    ("MixtureOfExperts.backward", "= gates_backward(dweights, saved_gates)",
     "= np.zeros_like(logits)"),
    ("MixtureOfExperts.backward", "if dauxiliary:", "if True:\n        dauxiliary = 1.0"),
]
