"""Losses, each with its gradient.

    softmax_cross_entropy    start here: the loss of language models, and its uniform counterpart
    z_loss                   a penalty on the log-sum-exp of logits
    cross_entropy            composed of these: ignored targets, label smoothing, z-loss
    similarity               cosine similarity and the triplet loss
    distillation            a student imitates a teacher: its predictions, and its features
    sentence_pairs           two texts: features for a classifier, regression of the cosine
    token_log_probs          log-probabilities of given tokens: the two below are made of them
    preference               DPO, of pairs of answers; one of each was chosen
    policy                   of sampled answers and their rewards: PPO's clip, GRPO's groups
    kl_estimate              how far a policy is from a reference, from sampled tokens
    contrastive              of the pairs of a batch, each against all others, in both directions
    quantile                 of forecasts: numbers below which a share of the values should be
    detection                of object detection: weighted classes, and distances of boxes
"""
