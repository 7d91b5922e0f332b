"""The reference mathematics in NumPy: pure functions in pairs, `name` above `name_backward`.

    y, saved = name(x, ...)              saved is opaque: pass it to the backward unchanged
    dx = name_backward(dy, saved)        one gradient for every differentiated array, in order

dx is the gradient of the loss with respect to x; in formulas it is an x with a bar.

Arrays are float32 or float64 (or complex, inside a complex step); outputs have the dtype of the
inputs. Arguments that do not fit raise a ValueError or a TypeError before any work. Underflow to 0
raises nothing, whatever `np.seterr` says.
"""

from inspect import isfunction

from numformer.functional.activations.gated import (
    gated_linear_unit, gated_linear_unit_backward)
from numformer.functional.activations.gelu import (
    gelu, gelu_backward, gelu_tanh, gelu_tanh_backward)
from numformer.functional.activations.relu import (
    relu, relu_backward, relu_squared, relu_squared_backward)
from numformer.functional.activations.sigmoid import sigmoid, sigmoid_backward
from numformer.functional.activations.swish import (
    quick_gelu, quick_gelu_backward, silu, silu_backward, swish, swish_backward)
from numformer.functional.activations.table import ACTIVATIONS, GATED
from numformer.functional.adam import adam_step
from numformer.functional.attention.additive import additive_scores, additive_scores_backward
from numformer.functional.attention.core import attention, attention_backward
from numformer.functional.attention.dropout import drop_weights, drop_weights_backward
from numformer.functional.attention.fixed_weights import (
    distance_weights, distance_weights_backward, uniform_weights)
from numformer.functional.attention.efficient.linear import (
    linear_attention, linear_attention_backward, linear_attention_step)
from numformer.functional.attention.efficient.low_rank import (
    low_rank_attention, low_rank_attention_backward)
from numformer.functional.attention.efficient.sparse import (
    sparse_attention, sparse_attention_backward)
from numformer.functional.attention.efficient.sparse_patterns import (
    fixed_keys, mask_of_keys, strided_keys)
from numformer.functional.attention.grouped_heads import (
    repeat_kv_heads, repeat_kv_heads_backward)
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.functional.attention.modifiers import (
    add_by_distance, add_by_distance_backward, alibi, alibi_backward, soft_cap, soft_cap_backward)
from numformer.functional.attention.relative_attention import (
    relative_attention, relative_attention_backward, relative_attention_weights)
from numformer.functional.attention.scaled_dot_product import (
    attention_weights, scaled_dot_product_attention, scaled_dot_product_attention_backward)
from numformer.functional.attention.scores import (
    dot_scores, dot_scores_backward, general_scores, general_scores_backward, scaled_dot_scores,
    scaled_dot_scores_backward)
from numformer.functional.attention.shaw import (
    relative_scores, relative_scores_backward, relative_values, relative_values_backward)
from numformer.functional.attention.tiled import (
    TileStep, tiled_attention, tiled_attention_backward, tiled_attention_steps)
from numformer.functional.codebook import nearest_codes
from numformer.functional.convolution import causal_convolution, causal_convolution_backward
from numformer.functional.dropout import (
    dropout, dropout_backward, residual_dropout, residual_dropout_backward)
from numformer.functional.dropout_hash import (
    attention_dropout_mask, dropout_mask, dropout_seed)
from numformer.functional.embedding import embedding, embedding_backward
from numformer.functional.experts.dispatch import (
    combine_experts, combine_experts_backward, dispatch_to_experts, dispatch_to_experts_backward,
    sort_by_expert)
from numformer.functional.experts.losses import (
    load_balance_loss, load_balance_loss_backward, router_z_loss, router_z_loss_backward)
from numformer.functional.experts.router import (
    top_k_experts, top_k_gates, top_k_gates_backward, top_k_gates_over_all,
    top_k_gates_over_all_backward)
from numformer.functional.feed_forward import feed_forward, feed_forward_backward
from numformer.functional.gated_feed_forward import (
    gated_feed_forward, gated_feed_forward_backward)
from numformer.functional.head_projections import (
    head_projections, head_projections_backward)
from numformer.functional.linear import (
    linear, linear_backward, linear_backward_accumulate)
from numformer.functional.losses.contrastive import (
    contrastive_loss, contrastive_loss_backward)
from numformer.functional.losses.cross_entropy import (
    IGNORE_INDEX, cross_entropy, cross_entropy_backward, softmax_cross_entropy,
    softmax_cross_entropy_backward)
from numformer.functional.losses.distillation import (
    distillation_loss, distillation_loss_backward, imitation_loss, imitation_loss_backward)
from numformer.functional.losses.detection import (
    box_loss, box_loss_backward, weighted_cross_entropy, weighted_cross_entropy_backward)
from numformer.functional.losses.kl_estimate import kl_estimate, kl_estimate_backward
from numformer.functional.losses.linear_cross_entropy import (
    linear_cross_entropy, linear_cross_entropy_backward)
from numformer.functional.losses.policy import (
    differing_groups, group_advantages, policy_loss, policy_loss_backward)
from numformer.functional.losses.preference import dpo_loss, dpo_loss_backward
from numformer.functional.losses.quantile import quantile_loss, quantile_loss_backward
from numformer.functional.losses.sentence_pairs import (
    cosine_regression_loss, cosine_regression_loss_backward, pair_features,
    pair_features_backward)
from numformer.functional.losses.similarity import (
    cosine_similarity, cosine_similarity_backward, triplet_loss, triplet_loss_backward)
from numformer.functional.losses.token_log_probs import (
    token_log_probs, token_log_probs_backward)
from numformer.functional.losses.uniform_cross_entropy import (
    uniform_cross_entropy, uniform_cross_entropy_backward)
from numformer.functional.losses.z_loss import z_loss, z_loss_backward
from numformer.functional.low_rank import low_rank_linear, low_rank_linear_backward
from numformer.functional.ngrams import ngram_rows
from numformer.functional.norms.batch_norm import batch_norm, batch_norm_backward
from numformer.functional.norms.batch_norm_variants import (
    batch_norm_inference, batch_norm_inference_backward, masked_batch_norm,
    masked_batch_norm_backward)
from numformer.functional.norms.batch_statistics import BatchStatistics, gathered_statistics
from numformer.functional.norms.epsilon_outside import (
    layer_norm_outside, layer_norm_outside_backward, rms_norm_outside, rms_norm_outside_backward)
from numformer.functional.norms.layer_norm import layer_norm, layer_norm_backward
from numformer.functional.norms.residual_norm import (
    residual_layer_norm, residual_layer_norm_backward, residual_rms_norm,
    residual_rms_norm_backward)
from numformer.functional.norms.rms_norm import rms_norm, rms_norm_backward
from numformer.functional.orthogonal import orthogonalize
from numformer.functional.pooling import (
    max_pooling, max_pooling_backward, mean_pooling, mean_pooling_backward)
from numformer.functional.positions.alibi import alibi_slopes
from numformer.functional.positions.partial_rotary import partial_rotary, partial_rotary_backward
from numformer.functional.positions.relative_bias import (
    relative_position_bias, relative_position_bias_backward, relative_position_buckets)
from numformer.functional.positions.rotary import (
    rotary, rotary_angles, rotary_backward, rotary_frequencies)
from numformer.functional.positions.rotary_scaling import (
    linear_frequencies, llama3_frequencies, scaled_frequencies, yarn_attention_factor,
    yarn_frequencies)
from numformer.functional.positions.sinusoidal import sinusoidal_positions
from numformer.functional.positions.two_dimensional import sinusoidal_positions_2d
from numformer.functional.quantization import (
    from_bfloat16, round_weight, to_bfloat16, to_int8)
from numformer.functional.recurrent.gru import gru_cell, gru_cell_backward
from numformer.functional.recurrent.gru_reset_before import (
    gru_cell_reset_before, gru_cell_reset_before_backward)
from numformer.functional.recurrent.lstm import lstm_cell, lstm_cell_backward
from numformer.functional.recurrent.rnn import rnn_cell, rnn_cell_backward
from numformer.functional.scaling import sums_of_squares
from numformer.functional.softmax import (
    log_softmax, log_softmax_backward, softmax, softmax_backward)
from numformer.functional.vision.convolution2d import convolution_2d, convolution_2d_backward
from numformer.functional.vision.patch_merging import merge_patches, merge_patches_backward
from numformer.functional.vision.boxes import (
    box_centres, box_corners, box_corners_backward, box_iou, generalized_iou,
    generalized_iou_backward)
from numformer.functional.vision.deformable_attention import (
    deformable_attention, deformable_attention_backward)
from numformer.functional.vision.matching import match_objects, matching_costs
from numformer.functional.vision.patches import (
    patch_convolution, patch_convolution_backward, patches, patches_backward)
from numformer.functional.vision.pooling2d import (
    max_pooling_2d, max_pooling_2d_backward, mean_pooling_2d, mean_pooling_2d_backward)
from numformer.functional.vision.window_attention import (
    window_attention, window_attention_backward, window_distances, window_position_bias,
    window_position_bias_backward)
from numformer.functional.vision.windows import (
    cyclic_roll, cyclic_roll_backward, shifted_window_mask, window_partition,
    window_partition_backward, window_reverse, window_reverse_backward)
from numformer.underflow import underflow_is_zero

# All that the modules above define, and constants
__all__ = sorted(name for name, value in globals().items() if name.isupper()
                 or getattr(value, "__module__", "").startswith(f"{__name__}."))

globals().update({name: underflow_is_zero(value) for name, value in globals().items()
                  if name in __all__ and isfunction(value)})
