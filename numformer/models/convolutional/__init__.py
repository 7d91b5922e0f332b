"""Models of convolutions.

    classifier        start here: images, as LeNet does it
    language_model    a causal convolution over a text, with gates (Dauphin et al. 2017)
"""
