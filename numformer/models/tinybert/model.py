"""TinyBERT: a small BERT classifier that imitates a large one, layer by layer."""

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.description import Row
from numformer.functional import (
    IGNORE_INDEX, distillation_loss, distillation_loss_backward, imitation_loss,
    imitation_loss_backward)
from numformer.functional.attention.masks import AttentionPattern
from numformer.layers import Linear
from numformer.models.bert.classifier import BertClassifier
from numformer.models.tinybert.config import TinyBertConfig
from numformer.models.tinybert.scores import attention_loss, attention_loss_backward
from numformer.models.transformer import (
    LossOfParts, for_each_part, n_counted, real_positions)


class TinyBert(LossOfParts, BertClassifier):
    r"""A `BertClassifier`, the student, whose training loss compares it with a teacher.

    .. math::

        L = \alpha\, L_{\mathrm{labels}} + \beta\, L_{\mathrm{soft}}(z, z')
            + \gamma \Big[ L_2(x^0 W_e, x'^0) + \sum_{m=1}^M L_2(x^m W_h, x'^{g(m)}) \Big]
            + \delta \sum_{m=1}^M L_2(a^m, a'^{g(m)})

    with the logits z, states :math:`x^m` (:math:`x^0` is the embedding) and attention scores
    :math:`a^m` of the student, those of the teacher primed, and the teacher's layer g(m) for the
    student's layer m. The four weights are ``hard_weight``, ``soft_weight``, ``hidden_weight`` and
    ``attention_weight``. States and scores are compared where there is no padding. The two
    projections are used in training alone; `forward` is the classifier's.

    A batch of its loss is (ids, lengths, labels, teacher_logits, teacher_states, teacher_scores),
    as `taught` makes it: the teacher is a constant, and no part of this model. A label may be
    `IGNORE_INDEX`: such a text has only the teacher's predictions. The loss of a batch (ids,
    lengths, labels) is the cross-entropy alone; a student without a teacher has no projections.

    Parameters
    ----------
    config : TinyBertConfig
    rng : numpy.random.Generator or None

    References
    ----------
    Jiao et al. (2020), "TinyBERT: Distilling BERT for Natural Language Understanding", section 3,
    eq. 7 to 11.

    Examples
    --------
    >>> from numformer.models import TinyBertConfig
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> config = TinyBertConfig(**sizes, n_classes=3, teacher_width=32)
    >>> model = TinyBert(config, np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0]]), np.array([3])
    >>> logits, states = np.zeros((1, 3)), np.zeros((1, 3, 4, 32))    # of 2 layers
    >>> teacher = logits, states, np.zeros((1, 2, 2, 4, 4))           # and scores
    >>> loss, saved = model.loss((ids, lengths, np.array([2]), *teacher))
    >>> model.loss_backward(saved)
    """

    config_class = TinyBertConfig

    def __init__(self, config, rng):
        super().__init__(config, rng)
        c, dtype = config, np.dtype(config.dtype)
        self.embedding_projection = self.hidden_projection = None
        if c.teacher_width is not None:
            self.embedding_projection = Linear(c.d_model, c.teacher_width, rng, dtype=dtype)
            self.hidden_projection = Linear(c.d_model, c.teacher_width, rng, dtype=dtype)

    def states(self, ids, lengths=None, rng=None):
        """The embedding and the output of every block, a list of (B, T, C), and saved."""
        b = self.backbone
        x, saved_input = b.input.forward(ids, rng=rng)                # (B, T, C)
        pattern = AttentionPattern(lengths=lengths)
        states, saved_blocks = [x], []
        for block in b.encoder.blocks:
            x, saved_block = block.forward(x, pattern=pattern, rng=rng)
            states.append(x)
            saved_blocks.append(saved_block)

        saved = (saved_input, saved_blocks)
        return states, saved

    def states_backward(self, dstates, saved):
        """Add to the gradients of the backbone, from those with respect to all states."""
        saved_input, saved_blocks = saved
        b = self.backbone

        # x = block(x): a state has the gradient of its loss and of what follows
        dx = dstates[-1]
        for block, saved_block, dstate in zip(
                reversed(b.encoder.blocks), reversed(saved_blocks), reversed(dstates[:-1])):
            dx = block.backward(dx, saved_block) + dstate

        # x = input(ids)
        b.input.backward(dx, saved_input)

    def loss_counts(self, batch):
        """The numbers of texts, of their tokens, and of the pairs of two tokens of a text.

        Without a teacher the number of labels alone.
        """
        _, lengths, labels, *teacher = batch
        lengths = np.asarray(lengths, np.int64)
        if not teacher:
            return n_counted(labels),
        return len(labels), int(lengths.sum()), int((lengths ** 2).sum())

    def loss_parts(self, batch, rng=None):
        """The losses of predictions, of states, and of attention scores; and saved.

        Predictions are compared for each text, states for each token, scores for each pair of
        tokens of a text. Without a teacher there is one loss, that of the labels.

        Parameters
        ----------
        batch : (ids, lengths, labels, teacher_logits, teacher_states, teacher_scores)
            Shapes (B, T), (B,), (B,), (B, n_classes), (B, M + 1, T, C') with the teacher's width
            C' and M layers of the student, and (B, M, H, T, T). Or the first three alone.
        rng : numpy.random.Generator, optional
            For dropout.

        Raises
        ------
        ValueError
            If the teacher's states or scores have another shape.
        """
        ids, lengths, labels, *teacher = batch
        if not teacher:
            loss, saved_alone = BertClassifier.loss(self, batch, rng)
            return (loss,), (saved_alone, None)
        teacher_logits, teacher_states, teacher_scores = teacher
        c, blocks = self.config, self.backbone.encoder.blocks
        self._check_teacher(ids, teacher_states, teacher_scores)
        states, saved_states = self.states(ids, lengths, rng)
        x, saved_norm = self.backbone.encoder.norm.forward(states[-1])
        real = real_positions(lengths, ids.shape[1])                  # (B, T)
        x, saved_pooler = self.pooler.forward(x, real)                # (B, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        logits, saved_classes = self.classes.forward(x)               # (B, n_classes)
        soft, saved_soft = distillation_loss(logits, teacher_logits, c.temperature)
        of_texts, saved_hard, known = c.soft_weight * soft, None, labels != IGNORE_INDEX
        hard_weight = c.hard_weight * float(known.mean())             # a text without label adds 0
        if known.any():
            hard, saved_hard = cross_entropy(logits, labels)
            of_texts = of_texts + hard_weight * hard
        of_states, of_scores, saved_hidden, saved_attention = 0.0, 0.0, [], []
        for m, state in enumerate(states):
            projected, saved_projection = self._projection(m).forward(state[real])    # (n, C')
            hidden, saved_imitation = imitation_loss(projected, teacher_states[:, m][real])
            of_states = of_states + c.hidden_weight * hidden
            saved_hidden.append((saved_projection, saved_imitation))
        for m, block in enumerate(blocks if c.attention_weight else []):
            attention, saved_scores = attention_loss(block, states[m], teacher_scores[:, m], real)
            of_scores = of_scores + c.attention_weight * attention
            saved_attention.append(saved_scores)

        saved_head = (saved_norm, saved_pooler, saved_dropout, saved_classes)
        saved_losses = (hard_weight, saved_hard, saved_soft, real, saved_hidden, saved_attention)
        return (of_texts, of_states, of_scores), (None, (saved_states, saved_head, saved_losses))

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter; `dloss` as in `LossOfParts`."""
        saved_alone, saved_taught = saved
        if saved_taught is None:
            return BertClassifier.loss_backward(self, saved_alone, *for_each_part(dloss, 1))
        saved_states, saved_head, saved_losses = saved_taught
        saved_norm, saved_pooler, saved_dropout, saved_classes = saved_head
        hard_weight, saved_hard, saved_soft, real, saved_hidden, saved_attention = saved_losses
        c, blocks = self.config, self.backbone.encoder.blocks
        dtexts, dof_states, dof_scores = for_each_part(dloss, 3)

        # of_states = of_states + hidden_weight * imitation_loss(projection(state[real]), teacher)
        dstates = []
        for m, (saved_projection, saved_imitation) in enumerate(saved_hidden):
            dprojected = imitation_loss_backward(c.hidden_weight * dof_states, saved_imitation)
            dreal = self._projection(m).backward(dprojected, saved_projection)
            dstate = np.zeros((*real.shape, c.d_model), dreal.dtype)
            dstate[real] = dreal
            dstates.append(dstate)

        # of_scores = of_scores + attention_weight * attention_loss(block, states[m], teacher)
        for m, saved_scores in enumerate(saved_attention):
            dstates[m] += attention_loss_backward(
                blocks[m], c.attention_weight * dof_scores, saved_scores)

        # of_texts = soft_weight * distillation_loss(...) + hard_weight * cross_entropy(...)
        dlogits = distillation_loss_backward(c.soft_weight * dtexts, saved_soft)
        if saved_hard is not None:
            dlogits = dlogits + cross_entropy_backward(hard_weight * dtexts, saved_hard)

        # logits = classes(dropout(pooler(norm(states[-1]))))
        dx = self.dropout.backward(self.classes.backward(dlogits, saved_classes), saved_dropout)
        dx = self.pooler.backward(dx, saved_pooler)
        dstates[-1] = dstates[-1] + self.backbone.encoder.norm.backward(dx, saved_norm)
        self.states_backward(dstates, saved_states)

    def evaluation_loss(self, batch):
        """The mean cross-entropy of the labels, without dropout; a teacher's part is not used."""
        ids, lengths, labels, *_ = batch
        return super().evaluation_loss((ids, lengths, labels))

    def _check_teacher(self, ids, states, scores):
        """ValueError if states or scores of the teacher have another shape."""
        (B, T), c = ids.shape, self.config
        if c.teacher_width is None:
            raise ValueError("TinyBert: teacher_width=None is a student without a teacher, but a "
                             "batch came with a teacher's part; give the width of the teacher.")
        expected = (B, c.n_layers + 1, T, c.teacher_width)
        if states.shape != expected:
            raise ValueError(f"TinyBert: teacher_states must have shape {expected}, (B, layers + "
                             f"1, T, teacher_width), but have {states.shape}.")
        expected = (B, c.n_layers, c.n_heads, T, T)
        if c.attention_weight and scores.shape != expected:
            raise ValueError(f"TinyBert: teacher_scores must have shape {expected}, (B, layers, "
                             f"n_heads, T, T), but have {scores.shape}; give a teacher with as "
                             "many heads, or attention_weight=0.")

    def _projection(self, m):
        """That of the embedding, or the one that all blocks share."""
        return self.hidden_projection if m else self.embedding_projection

    def describe_head(self, reader):
        """The classifier, and in training the projections of what the teacher is compared with."""
        head, shape = super().describe_head(reader), ("B", "T", self.config.teacher_width)
        more = [reader.boxes(shape, layer, name=f"Projection of {of}",
                             detail="in training, to the teacher's width")
                for of, layer in (("embeddings", self.embedding_projection),
                                  ("states", self.hidden_projection))]
        return (Row((head, *more)),) if any(more) else head
