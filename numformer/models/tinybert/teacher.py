"""The teacher's part of a batch: predictions, states and scores, constants for the student."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.functional.attention.masks import AttentionPattern
from numformer.models.bert.classifier import BertClassifier
from numformer.models.tinybert.scores import attention_scores
from numformer.models.transformer import real_positions


def teacher_states(teacher, ids, lengths, n_layers):
    """Logits of a teacher, and its states and attention scores at evenly spaced layers.

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
    scores : ndarray, shape (B, M, H, T, T)
        Those of `attention_scores`.

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
        x, _ = b.input.forward(ids)                                   # (B, T, C)
        states, scores, pattern = [x], [], AttentionPattern(lengths=lengths)
        for layer, block in enumerate(b.encoder.blocks, start=1):
            if layer in chosen:
                scores.append(attention_scores(block, x)[0])          # (B, H, T, T)
            x = block(x, pattern=pattern)
            if layer in chosen:
                states.append(x)
        pooled = teacher.pooler(b.encoder.norm(x), real_positions(lengths, ids.shape[1]))
        logits = teacher.classes(pooled)
    return logits, np.stack(states, axis=1), np.stack(scores, axis=1)


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
        With teacher_logits, teacher_states and teacher_scores in addition.
    """
    ids, lengths, _ = batch
    logits, states, scores = teacher_states(teacher, ids, lengths, n_layers)
    return type(batch)(**vars(batch), teacher_logits=logits, teacher_states=states,
                       teacher_scores=scores)


def check_teacher(config, teacher):
    """ValueError if a student of this config cannot learn from a teacher.

    Parameters
    ----------
    config : TinyBertConfig
    teacher : Layer

    Examples
    --------
    >>> from numformer.models import BertClassifierConfig, TinyBertConfig
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, d_model=16, n_classes=3)
    >>> config = BertClassifierConfig(**sizes, n_heads=2)
    >>> teacher = BertClassifier(config, np.random.default_rng(0))
    >>> check_teacher(TinyBertConfig(**sizes, n_heads=4, teacher_width=16), teacher)
    Traceback (most recent call last):
    ValueError: TinyBert: n_heads=4 must be that of the teacher, 2; or set attention_weight=0.
    """
    if not isinstance(teacher, BertClassifier):
        raise ValueError(f"TinyBert: the teacher is a {type(teacher).__name__}, but must be a "
                         "classifier of texts on BERT; give a BertClassifier.")
    c, t = config, teacher.config
    for name in ("vocab_size", "n_classes"):
        if getattr(c, name) != getattr(t, name):
            raise ValueError(f"TinyBert: {name}={getattr(c, name)} must be that of the teacher, "
                             f"{getattr(t, name)}.")
    if c.teacher_width != t.d_model:
        raise ValueError(f"TinyBert: teacher_width={c.teacher_width} must be d_model of the "
                         f"teacher, {t.d_model}.")
    if c.attention_weight and c.n_heads != t.n_heads:
        raise ValueError(f"TinyBert: n_heads={c.n_heads} must be that of the teacher, {t.n_heads}; "
                         "or set attention_weight=0.")
    for name in ("n_layers", "context_length"):
        if getattr(c, name) > getattr(t, name):
            raise ValueError(f"TinyBert: {name}={getattr(c, name)} must be at most that of the "
                             f"teacher, {getattr(t, name)}.")
    if t.norm == "batch_norm":
        raise ValueError("TinyBert: the teacher has norm='batch_norm', whose states depend on the "
                         "rest of a batch; give one with 'layer_norm' or 'rms_norm'.")
