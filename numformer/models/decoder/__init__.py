"""The Transformer's decoder without an encoder: GPT, LLaMA and their relatives.

    config        start here: the options, and the published sizes
    model         embedding, blocks, norm, head; the loss, and a step of generation with caches
    classifier    a class for a text, from the output at its last token
"""
