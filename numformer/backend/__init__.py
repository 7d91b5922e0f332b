"""Which version of a function runs (NumPy reference or compiled kernel), and on which threads."""

from numformer.backend.cores import available_cores
from numformer.backend.pool import (
    blas_libraries, can_start_threads, get_threads, one_blas_thread, run_by_shares,
    run_side_by_side, run_with_helpers, set_threads, threads)
from numformer.backend.dispatch import (
    ACTIVATIONS, COMPILED, adam_step, add, blas_choice, blas_label, compiled_attention,
    compiled_token_step, cross_entropy, cross_entropy_backward, dropout, dropout_backward,
    embedding, embedding_backward, feed_forward, feed_forward_backward,
    feed_forward_backward_accumulate, gated_feed_forward, gated_feed_forward_backward,
    gated_feed_forward_backward_accumulate, gated_linear_unit, gated_linear_unit_backward, gelu,
    gelu_backward, gelu_tanh, gelu_tanh_backward, head_projections, head_projections_backward,
    head_projections_backward_accumulate, layer_norm, layer_norm_backward, layer_norm_outside,
    layer_norm_outside_backward, linear, linear_backward, linear_backward_accumulate,
    linear_cross_entropy, linear_cross_entropy_backward, linear_cross_entropy_backward_accumulate,
    quick_gelu, quick_gelu_backward, relu, relu_backward, relu_squared, relu_squared_backward,
    residual_dropout, residual_dropout_backward, residual_layer_norm, residual_layer_norm_backward,
    residual_layer_norm_backward_accumulate, residual_rms_norm, residual_rms_norm_backward,
    residual_rms_norm_backward_accumulate, rms_norm, rms_norm_backward, rms_norm_outside,
    rms_norm_outside_backward, rotary, rotary_backward, scaled_dot_product_attention,
    scaled_dot_product_attention_backward, silu, silu_backward, sum_of_squares, swish,
    swish_backward, token_step, use, why_no_kernels)

__all__ = [
    "ACTIVATIONS", "COMPILED", "adam_step", "add", "available_cores", "blas_choice", "blas_label",
    "blas_libraries", "can_start_threads", "compiled_attention", "compiled_token_step",
    "cross_entropy", "cross_entropy_backward", "dropout", "dropout_backward", "embedding",
    "embedding_backward", "feed_forward", "feed_forward_backward",
    "feed_forward_backward_accumulate", "gated_feed_forward", "gated_feed_forward_backward",
    "gated_feed_forward_backward_accumulate", "gated_linear_unit", "gated_linear_unit_backward",
    "gelu", "gelu_backward", "gelu_tanh", "gelu_tanh_backward", "get_threads", "head_projections",
    "head_projections_backward", "head_projections_backward_accumulate", "layer_norm",
    "layer_norm_backward", "layer_norm_outside", "layer_norm_outside_backward", "linear",
    "linear_backward", "linear_backward_accumulate", "linear_cross_entropy",
    "linear_cross_entropy_backward", "linear_cross_entropy_backward_accumulate", "one_blas_thread",
    "quick_gelu", "quick_gelu_backward", "relu", "relu_backward", "relu_squared",
    "relu_squared_backward", "residual_dropout", "residual_dropout_backward", "residual_layer_norm",
    "residual_layer_norm_backward", "residual_layer_norm_backward_accumulate", "residual_rms_norm",
    "residual_rms_norm_backward", "residual_rms_norm_backward_accumulate", "rms_norm",
    "rms_norm_backward", "rms_norm_outside", "rms_norm_outside_backward", "rotary",
    "rotary_backward", "run_by_shares", "run_side_by_side", "run_with_helpers",
    "scaled_dot_product_attention", "scaled_dot_product_attention_backward", "set_threads", "silu",
    "silu_backward", "sum_of_squares", "swish", "swish_backward", "threads", "token_step", "use",
    "why_no_kernels",
]
