"""The teacher's part of a batch: its predictions and its states, constants for the student."""

import numpy as np

from numformer.backend import one_blas_thread


def teacher_states(teacher, ids, lengths, n_layers):
    """Logits of a teacher, and its states at evenly spaced layers.

    The student's layer m imitates the teacher's layer ``m * N / M``, rounded: for 12 and 4 layers
    the third, sixth, ninth and last.

    Parameters
    ----------
    teacher : BertClassifier
        With N blocks.
    ids : ndarray of int, shape (B, T)
    lengths : ndarray of int, shape (B,)
    n_layers : int
        M, the layers of the student, at most N.

    Returns
    -------
    logits : ndarray, shape (B, n_classes)
    states : ndarray, shape (B, M + 1, T, C)
        The embedding first.

    Raises
    ------
    ValueError
        If the student has more layers than the teacher.

    References
    ----------
    Jiao et al. (2020), "TinyBERT", section 3.1 for the mapping of layers, section 4.2 for this one.
    """
    N, b = len(teacher.backbone.encoder.blocks), teacher.backbone
    if not 1 <= n_layers <= N:
        raise ValueError(f"teacher_states: a student of n_layers={n_layers} cannot imitate a "
                         f"teacher of {N} layers; give 1 to {N}.")
    chosen = {(2 * m * N + n_layers) // (2 * n_layers) for m in range(n_layers + 1)}
    with one_blas_thread():
        x = b.positions.forward(b.embedding(ids), start=0)[0]         # (B, T, C)
        if b.segments is not None:
            x = x + b.segments(np.zeros_like(ids))
        x, states = b.norm(x), []
        for layer, (block, pattern) in enumerate(zip(b.encoder.blocks, b.patterns(lengths))):
            if layer in chosen:
                states.append(x)
            x = block(x, pattern=pattern)
        states.append(x)
        logits = teacher.classes(teacher.pooler(b.encoder.norm(x)))
    return logits, np.stack(states, axis=1)


def taught(batch, teacher, n_layers):
    """A batch of a text classifier with what the teacher predicts for it.

    Parameters
    ----------
    batch : Batch of ids (B, T), lengths (B,), labels (B,)
    teacher : BertClassifier
    n_layers : int
        Of the student.

    Returns
    -------
    Batch
        With teacher_logits and teacher_states in addition.
    """
    ids, lengths, _ = batch
    logits, states = teacher_states(teacher, ids, lengths, n_layers)
    return type(batch)(**vars(batch), teacher_logits=logits, teacher_states=states)
