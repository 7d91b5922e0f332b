"""The Transformer's decoder without an encoder: GPT, LLaMA and their relatives.

    config        start here: the options, and the published sizes
    model         embedding, blocks, norm, head; the loss, and a step of generation
    caches        keys and values of earlier tokens, and the compiled step
    classifier    a class for a text, from the output at its last token
    policy        learns from the rewards of answers that it samples

`gpt_weights`, `llama_weights`, `neox_weights` and `opt_weights` are tables of published weights.
"""
