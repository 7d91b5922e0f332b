"""CLIP (Radford et al. 2021): texts and images in one space of vectors.

    config           start here: the options, of which the first half is those of all Transformers
    text_encoder     a causal Transformer; the output at the end token is the vector of a text
    model            both encoders, cosines over a temperature, the loss, and classification
    weights          tables of published weights

The image encoder is the `VisionTransformer`.
"""
