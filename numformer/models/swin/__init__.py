"""The Swin Transformer: attention within windows that are shifted from block to block.

    config    start here: the options, and the published sizes
    model     stages of blocks, between which patches are merged
"""
