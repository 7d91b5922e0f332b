"""TinyBERT: a small classifier that learns from a large one.

    config     start here: the options
    teacher    what the teacher gives: logits, hidden states and attention scores
    scores     attention scores, and the loss on them
    model      the student, and its loss
"""
