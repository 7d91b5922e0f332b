"""Position information, one scheme a file.

    sinusoidal         fixed vectors, added to the embeddings
    two_dimensional    the same for the patches of an image
    rotary             rotations of queries and keys
    partial_rotary     the same on a part of each head
    rotary_scaling     smaller frequencies, for texts longer than those of pretraining
    alibi              slopes of a penalty on the scores
    relative_bias      T5: a learned bias by distance, added to the scores

Shaw's relative positions are part of attention itself: `numformer.functional.attention.shaw`.
"""
