"""Wrong answers, a page for each family."""

from answers.wrong import (                                           # noqa: F401: they register
    wrong_activations, wrong_attention, wrong_batch_norm, wrong_experts, wrong_gates, wrong_gru,
    wrong_layer_norm, wrong_linear, wrong_losses, wrong_positions, wrong_recurrent, wrong_rms_norm,
    wrong_scores, wrong_similarity, wrong_softmax)
