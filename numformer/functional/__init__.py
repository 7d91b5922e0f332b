"""The mathematics: pure functions in pairs, `name` above `name_backward`. They own nothing and know no layer.

    y, saved = name(x, ...)              saved is opaque: hand it to the backward as it is
    dx = name_backward(dy, saved)        one gradient for every array that was differentiated, in order

Arrays are float32 or float64 (or complex, inside a complex step); what comes out has the dtype of what went in. Whatever
does not fit is a ValueError or a TypeError before any work.
"""

from numformer.functional.activations import (
    ACTIVATIONS, gelu, gelu_backward, gelu_tanh, gelu_tanh_backward, sigmoid, sigmoid_backward, silu, silu_backward, swish,
    swish_backward)
from numformer.functional.adam import adam_step, sum_of_squares
from numformer.functional.attention import attention_weights, scaled_dot_product_attention, scaled_dot_product_attention_backward
from numformer.functional.batch_norm import BatchStatistics, batch_norm, batch_norm_backward, gathered_statistics
from numformer.functional.convolution import causal_convolution, causal_convolution_backward
from numformer.functional.cross_entropy import IGNORE_INDEX, cross_entropy, cross_entropy_backward
from numformer.functional.dropout import (
    attention_dropout_mask, dropout, dropout_backward, dropout_mask, dropout_seed, residual_dropout, residual_dropout_backward)
from numformer.functional.embedding import embedding, embedding_backward
from numformer.functional.gated import gated_linear_unit, gated_linear_unit_backward
from numformer.functional.gru import gru_cell, gru_cell_backward
from numformer.functional.linear import linear, linear_backward
from numformer.functional.lstm import lstm_cell, lstm_cell_backward
from numformer.functional.mixture_of_experts import (
    combine_experts, combine_experts_backward, dispatch_to_experts, dispatch_to_experts_backward, sort_by_expert)
from numformer.functional.ngrams import ngram_rows
from numformer.functional.normalization import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from numformer.functional.orthogonal import orthogonalize
from numformer.functional.patches import patch_convolution, patch_convolution_backward, patches, patches_backward
from numformer.functional.pattern import CAUSAL, EVERYWHERE, AttentionPattern, layer_patterns
from numformer.functional.pooling import max_pooling, max_pooling_backward, mean_pooling, mean_pooling_backward
from numformer.functional.positions import alibi, alibi_backward, alibi_slopes, rotary, rotary_angles, rotary_backward, sinusoidal_positions
from numformer.functional.positions_2d import sinusoidal_positions_2d
from numformer.functional.relative_attention import (
    relative_attention, relative_attention_backward, relative_attention_weights, relative_scores, relative_scores_backward,
    relative_values, relative_values_backward)
from numformer.functional.relative_positions import (
    add_by_distance, add_by_distance_backward, relative_position_bias, relative_position_bias_backward, relative_position_buckets)
from numformer.functional.relu import relu, relu_backward, relu_squared, relu_squared_backward
from numformer.functional.rnn import rnn_cell, rnn_cell_backward
from numformer.functional.router import top_k_experts, top_k_gates, top_k_gates_backward
from numformer.functional.router_losses import load_balance_loss, load_balance_loss_backward, router_z_loss, router_z_loss_backward
from numformer.functional.scores import (
    additive_scores, additive_scores_backward, dot_scores, dot_scores_backward, general_scores, general_scores_backward,
    scaled_dot_scores, scaled_dot_scores_backward)
from numformer.functional.similarity import cosine_similarity, cosine_similarity_backward, triplet_loss, triplet_loss_backward
from numformer.functional.soft_cap import soft_cap, soft_cap_backward
from numformer.functional.softmax import log_softmax, log_softmax_backward, softmax, softmax_backward
from numformer.functional.tiled_attention import TileStep, tiled_attention, tiled_attention_steps

__all__ = [
    "ACTIVATIONS", "AttentionPattern", "BatchStatistics", "CAUSAL", "EVERYWHERE", "IGNORE_INDEX", "TileStep", "adam_step",
    "add_by_distance", "add_by_distance_backward", "additive_scores", "additive_scores_backward", "alibi", "alibi_backward",
    "alibi_slopes", "attention_dropout_mask", "attention_weights", "batch_norm", "batch_norm_backward", "causal_convolution",
    "causal_convolution_backward", "combine_experts", "combine_experts_backward", "cosine_similarity", "cosine_similarity_backward",
    "cross_entropy", "cross_entropy_backward",
    "dispatch_to_experts", "dispatch_to_experts_backward", "dot_scores", "dot_scores_backward", "dropout", "dropout_backward",
    "dropout_mask", "dropout_seed", "embedding", "embedding_backward", "gated_linear_unit", "gated_linear_unit_backward",
    "gathered_statistics", "gelu", "gelu_backward", "gelu_tanh", "gelu_tanh_backward", "general_scores", "general_scores_backward",
    "gru_cell", "gru_cell_backward", "layer_norm", "layer_norm_backward", "layer_patterns", "linear", "linear_backward",
    "load_balance_loss", "load_balance_loss_backward", "log_softmax", "log_softmax_backward", "lstm_cell", "lstm_cell_backward",
    "max_pooling", "max_pooling_backward", "mean_pooling", "mean_pooling_backward", "ngram_rows", "orthogonalize", "patch_convolution",
    "patch_convolution_backward", "patches", "patches_backward", "relative_attention", "relative_attention_backward",
    "relative_attention_weights", "relative_position_bias", "relative_position_bias_backward", "relative_position_buckets",
    "relative_scores", "relative_scores_backward", "relative_values", "relative_values_backward", "relu", "relu_backward",
    "relu_squared", "relu_squared_backward", "residual_dropout", "residual_dropout_backward", "rms_norm", "rms_norm_backward",
    "rnn_cell", "rnn_cell_backward", "rotary", "rotary_angles", "rotary_backward", "router_z_loss", "router_z_loss_backward",
    "scaled_dot_product_attention", "scaled_dot_product_attention_backward", "scaled_dot_scores", "scaled_dot_scores_backward",
    "sigmoid", "sigmoid_backward", "silu", "silu_backward", "sinusoidal_positions", "sinusoidal_positions_2d", "soft_cap",
    "soft_cap_backward", "softmax", "softmax_backward", "sort_by_expert", "sum_of_squares", "swish", "swish_backward",
    "tiled_attention", "tiled_attention_steps", "top_k_experts", "top_k_gates", "top_k_gates_backward",
    "triplet_loss", "triplet_loss_backward",
]
