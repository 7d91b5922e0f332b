"""The Transformer of 2017, T5 and BART: an encoder, and a decoder that attends to it.

    config    start here: the options, and the published sizes
    model     both stacks, the loss, and a step of generation with caches

`t5_weights` and `bart_weights` are tables of published weights.
"""
