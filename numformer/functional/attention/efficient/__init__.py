"""Attention whose cost grows more slowly than T x S, by three different ideas:

    linear      products of features in place of the softmax: keys and values become one state
    low_rank    keys and values are mixed along the sequence, down to a fixed number
    sparse      each query attends to about the root of T keys: its own block, and every n-th

`sparse_patterns` says which keys. Each function equals a plain one on small arrays; the tests say
which. A window, the fourth idea, is a rule of `AttentionPattern`.
"""
