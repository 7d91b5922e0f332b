"""Mixture of experts, in the order of the computation.

    router      the experts of each token, and their weights
    dispatch    tokens to their experts, and the outputs back
    losses      auxiliary losses: balanced use, small logits
"""
