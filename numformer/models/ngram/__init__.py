"""Language models that count n-grams.

    kneser_ney        start here: counts, discounts, and what is left for shorter histories
    language_model    the same as a model that is trained, saved and sampled like the others
    decoder           a Transformer whose embedding has hashed n-grams, too
"""
