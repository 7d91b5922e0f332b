"""Normalization, from plain to particular.

    layer_norm             start here: mean and variance of each vector
    rms_norm               without the mean and the bias
    residual_norm          both, of the sum of the residual stream and a branch
    epsilon_outside        both, with sigma + epsilon
    batch_norm             mean and variance of each coordinate over the batch
    batch_statistics       gathered over batches, for inference
    batch_norm_variants    at inference, and with padding
"""
