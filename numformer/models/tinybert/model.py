"""TinyBERT: a small BERT classifier that imitates a large one, layer by layer."""

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.functional import (
    distillation_loss, distillation_loss_backward, imitation_loss, imitation_loss_backward)
from numformer.layers import Linear
from numformer.models.bert_classifier import BertClassifier


class TinyBert(BertClassifier):
    r"""A `BertClassifier`, the student, whose training loss compares it with a teacher.

    .. math::

        L = \alpha\, L_{\mathrm{labels}} + \beta\, L_{\mathrm{soft}}(z, z')
            + \gamma \Big[ L_2(x^0 W_e, x'^0) + \sum_{m=1}^M L_2(x^m W_h, x'^{g(m)}) \Big]

    with the logits z and states :math:`x^m` of the student (:math:`x^0` is the embedding), those of
    the teacher primed, and the teacher's layer g(m) for the student's layer m. The three weights
    are ``hard_weight``, ``soft_weight`` and ``hidden_weight``. States are compared where there is
    no padding. The two projections are used in training alone; `forward` is the classifier's.

    A batch of its loss is (ids, lengths, labels, teacher_logits, teacher_states), as `taught`
    makes it: the teacher is a constant, and no part of this model. The loss of attention weights
    of the paper is not part of it.

    Parameters
    ----------
    config : TinyBertConfig
    rng : numpy.random.Generator or None

    References
    ----------
    Jiao et al. (2020), "TinyBERT: Distilling BERT for Natural Language Understanding", section 3,
    eq. 8 to 11.

    Examples
    --------
    >>> from numformer.models.tinybert import TinyBertConfig
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> config = TinyBertConfig(**sizes, n_classes=3, teacher_width=32)
    >>> model = TinyBert(config, np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0]]), np.array([3])
    >>> teacher = np.zeros((1, 3)), np.zeros((1, 3, 4, 32))           # logits; states of 2 layers
    >>> loss, saved = model.loss((ids, lengths, np.array([2]), *teacher))
    >>> model.loss_backward(saved)
    """

    def __init__(self, config, rng):
        super().__init__(config, rng)
        c, dtype = config, np.dtype(config.dtype)
        self.embedding_projection = Linear(c.d_model, c.teacher_width, rng, dtype=dtype)
        self.hidden_projection = Linear(c.d_model, c.teacher_width, rng, dtype=dtype)

    def states(self, ids, lengths=None, rng=None):
        """The embedding and the output of every block, a list of (B, T, C), and saved."""
        b = self.backbone
        x, saved_embedding = b.embedding.forward(ids)                 # (B, T, C)
        x, saved_positions = b.positions.forward(x, start=0)
        saved_segments = None
        if b.segments is not None:
            s, saved_segments = b.segments.forward(np.zeros_like(ids))
            x = x + s
        x, saved_norm = b.norm.forward(x)
        x, saved_dropout = b.dropout.forward(x, rng)
        states, saved_blocks = [x], []
        for block, pattern in zip(b.encoder.blocks, b.patterns(lengths)):
            x, saved_block = block.forward(x, pattern=pattern, rng=rng)
            states.append(x)
            saved_blocks.append(saved_block)

        saved_input = (saved_embedding, saved_positions, saved_segments, saved_norm, saved_dropout)
        saved = (saved_input, saved_blocks)
        return states, saved

    def states_backward(self, dstates, saved):
        """Add to the gradients of the backbone, from those with respect to all states."""
        saved_input, saved_blocks = saved
        saved_embedding, saved_positions, saved_segments, saved_norm, saved_dropout = saved_input
        b = self.backbone

        # x = block(x): a state has the gradient of its loss and of what follows
        dx = dstates[-1]
        for block, saved_block, dstate in zip(
                reversed(b.encoder.blocks), reversed(saved_blocks), reversed(dstates[:-1])):
            dx = block.backward(dx, saved_block) + dstate

        # x = dropout(norm(positions(embedding(ids)) + segments(0)))
        dx = b.norm.backward(b.dropout.backward(dx, saved_dropout), saved_norm)
        if b.segments is not None:
            b.segments.backward(dx, saved_segments)
        b.embedding.backward(b.positions.backward(dx, saved_positions), saved_embedding)

    def loss(self, batch, rng=None):
        """(loss, saved) of a batch; the loss of states is a mean over its tokens.

        Parameters
        ----------
        batch : (ids, lengths, labels, teacher_logits, teacher_states)
            Shapes (B, T), (B,), (B,), (B, n_classes) and (B, M + 1, T, C') with the teacher's width
            C' and M layers of the student.
        rng : numpy.random.Generator, optional
            For dropout.

        Raises
        ------
        ValueError
            If the teacher's states have another shape.
        """
        ids, lengths, labels, teacher_logits, teacher_states = batch
        c = self.config
        expected = (len(ids), c.n_layers + 1, ids.shape[1], c.teacher_width)
        if teacher_states.shape != expected:
            raise ValueError(f"TinyBert: teacher_states must have shape {expected}, (B, layers + "
                             f"1, T, teacher_width), but have {teacher_states.shape}.")
        states, saved_states = self.states(ids, lengths, rng)
        x, saved_norm = self.backbone.encoder.norm.forward(states[-1])
        x, saved_pooler = self.pooler.forward(x)                      # (B, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        logits, saved_classes = self.classes.forward(x)               # (B, n_classes)
        hard, saved_hard = cross_entropy(logits, labels)
        soft, saved_soft = distillation_loss(logits, teacher_logits, c.temperature)
        loss = c.hard_weight * hard + c.soft_weight * soft
        real = np.arange(ids.shape[1]) < lengths[:, None]             # (B, T)
        saved_imitations = []
        for m, state in enumerate(states):
            projected, saved_projection = self._projection(m).forward(state[real])    # (n, C')
            hidden, saved_hidden = imitation_loss(projected, teacher_states[:, m][real])
            loss = loss + c.hidden_weight * hidden
            saved_imitations.append((saved_projection, saved_hidden))

        saved_head = (saved_norm, saved_pooler, saved_dropout, saved_classes)
        saved = (saved_states, saved_head, saved_hard, saved_soft, real, saved_imitations)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_states, saved_head, saved_hard, saved_soft, real, saved_imitations = saved
        saved_norm, saved_pooler, saved_dropout, saved_classes = saved_head
        c = self.config

        # loss = loss + hidden_weight * imitation_loss(projection(state[real]), teacher)
        dstates = []
        for m, (saved_projection, saved_hidden) in enumerate(saved_imitations):
            dprojected = imitation_loss_backward(c.hidden_weight * dloss, saved_hidden)
            dreal = self._projection(m).backward(dprojected, saved_projection)
            dstate = np.zeros((*real.shape, c.d_model), dreal.dtype)
            dstate[real] = dreal
            dstates.append(dstate)

        # loss = hard_weight * cross_entropy(logits, labels) + soft_weight * distillation_loss(...)
        dlogits = (cross_entropy_backward(c.hard_weight * dloss, saved_hard)
                   + distillation_loss_backward(c.soft_weight * dloss, saved_soft))

        # logits = classes(dropout(pooler(norm(states[-1]))))
        dx = self.dropout.backward(self.classes.backward(dlogits, saved_classes), saved_dropout)
        dx = self.pooler.backward(dx, saved_pooler)
        dstates[-1] = dstates[-1] + self.backbone.encoder.norm.backward(dx, saved_norm)
        self.states_backward(dstates, saved_states)

    def _projection(self, m):
        """That of the embedding, or the one that all blocks share."""
        return self.hidden_projection if m else self.embedding_projection
