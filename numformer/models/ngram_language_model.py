"""The n-gram model as a language model like the others: it has a loss, it writes, and its counts are its state. It has no gradient."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_ids, check_whole
from numformer.models.ngram import KneserNey
from numformer.models.switches import Switches
from numformer.parameter import Parameter


@dataclass(frozen=True, kw_only=True)
class NGramLanguageModelConfig(Switches):
    """The switches of an `NGramLanguageModel`. How long its n-grams are is not among them: they grow while it learns.

    Parameters
    ----------
    vocab_size : int
        V.
    context_length : int
        The length of the blocks that it is measured on, so that others can be measured on the same.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    vocab_size: int
    context_length: int

    def __post_init__(self):
        check_whole("NGramLanguageModelConfig", "vocab_size", self.vocab_size)
        check_whole("NGramLanguageModelConfig", "context_length", self.context_length)


class NGramLanguageModel:
    """`KneserNey` with the methods by which a trained model is measured, sampled, saved and loaded. It begins with n = 0: all ids alike.

    Parameters
    ----------
    config : NGramLanguageModelConfig
    rng
        Not needed: nothing is drawn.

    Examples
    --------
    >>> model = NGramLanguageModel(NGramLanguageModelConfig(vocab_size=4, context_length=8))
    >>> ids = np.array([0, 1, 0, 1, 0, 2])
    >>> batch = ids[None, :-1], ids[None, 1:]
    >>> before = model.loss(batch)[0]
    >>> model.fit(ids, 2)
    >>> bool(model.loss(batch)[0] < before), [p.data.size for p in model.parameters()]
    (True, [3, 3])
    """

    def __init__(self, config, rng=None):
        self.config, self.counts = config, None

    @property
    def n(self):
        """Length of the longest n-grams."""
        return 0 if self.counts is None else self.counts.n

    def fit(self, ids, n):
        """Count the n-grams of a text, (N,), instead of those counted before: see `KneserNey.fit`."""
        self.counts = KneserNey.fit(ids, n, self.config.vocab_size)

    def loss(self, batch, rng=None):
        """Mean of -log p over the targets of a batch, and nothing saved, for there is no way back.

        Parameters
        ----------
        batch : pair (inputs, targets) of ndarray of int, shape (B, T)

        Returns
        -------
        loss : float, nats a target
        saved : None
        """
        inputs, targets = batch
        if self.counts is None:
            return float(np.log(self.config.vocab_size)), None
        rows = np.concatenate([inputs[:, :1], targets], axis=1)       # what comes first is a history, and no target
        return -float(np.mean([self.counts.log_probabilities(row)[1:].mean() for row in rows])), None

    def step(self, ids, cache=None, pads=None):
        """Continue sequences: log-probabilities of what comes after each new token.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
        cache : list of ndarray of int, optional
            What the last call returned: the last n - 1 tokens of each sequence.
        pads : ndarray of int, shape (B,), optional
            At the start: how many of the first tokens of each sequence only fill up the row.

        Returns
        -------
        logits : ndarray of float64, shape (B, T, V)
        cache : list of ndarray of int
        """
        check_ids("NGramLanguageModel", "ids", ids, self.config.vocab_size)
        (B, T), V, after = ids.shape, self.config.vocab_size, []
        logits = np.full((B, T, V), -np.log(V))
        for b in range(B):
            first = 0 if pads is None else pads[b]
            row = np.concatenate([ids[b, :0] if cache is None else cache[b], ids[b, first:]])
            if self.counts is not None:
                for back in range(T - first):
                    logits[b, T - 1 - back] = np.log(self.counts.distribution(row[:len(row) - back]))
            after.append(row[max(0, len(row) - max(0, self.n - 1)):])
        return logits, after

    def costs(self):
        """What `numformer.models.count` says of other models; here the counts are the parameters. Looking up takes no products."""
        size = sum(parameter.data.size for parameter in self.parameters())
        return {"parameters": size, "active_parameters": self.n, "flops_per_token": 0, "training_flops_per_token": 0,
                "kv_bytes_per_token": 0, "state_bytes": 8 * max(0, self.n - 1)}

    def replica(self):
        """Itself: it keeps no gradients, of which another one could have its own."""
        return self

    def named_parameters(self):
        """The counts, for telling their number."""
        return [] if self.counts is None else [(f"counts.{k}", Parameter(counts)) for k, counts in enumerate(self.counts.counts, 1)]

    def parameters(self):
        """The counts, without their names."""
        return [parameter for _, parameter in self.named_parameters()]

    def state_dict(self):
        """All that `load_state_dict` needs, as integer arrays."""
        return {} if self.counts is None else self.counts.to_arrays()

    def load_state_dict(self, state):
        """Take over a `state_dict`.

        Raises
        ------
        ValueError, TypeError
            If it is none, or one of another vocabulary.
        """
        counts = KneserNey.from_arrays(state) if state else None
        if counts is not None and counts.vocab_size != self.config.vocab_size:
            raise ValueError(f"NGramLanguageModel: the counts are of vocab_size={counts.vocab_size}, not {self.config.vocab_size}.")
        self.counts = counts

    def __repr__(self):
        return f"NGramLanguageModel({self.counts!r})"
