"""The n-gram model with the interface of the other language models; it has no gradient."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_ids
from numformer.config import Config, like, option
from numformer.description import TOKENS, Column
from numformer.functional import IGNORE_INDEX
from numformer.models.decoder.config import DecoderConfig
from numformer.models.ngram.kneser_ney import KneserNey
from numformer.parameter import Parameter


@dataclass(frozen=True, kw_only=True)
class NGramLanguageModelConfig(Config):
    """The config of an `NGramLanguageModel`; the length of its n-grams grows in training."""

    vocab_size: int = like(DecoderConfig, "vocab_size")
    context_length: int = option(
        "Length of the blocks of its evaluation, to compare it with other models.")


class NGramLanguageModel:
    """`KneserNey` that can be evaluated, sampled, saved and loaded. At first n = 0: p = 1 / V.

    Parameters
    ----------
    config : NGramLanguageModelConfig
    rng
        Unused: the model has no random weights.

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

    config_class = NGramLanguageModelConfig

    def __init__(self, config, rng=None):
        self.config, self.counts = config, None

    @property
    def n(self):
        """Length of the longest n-grams."""
        return 0 if self.counts is None else self.counts.n

    def fit(self, ids, n):
        """Count the n-grams of a text (N,), in place of the current counts: see `KneserNey.fit`."""
        self.counts = KneserNey.fit(ids, n, self.config.vocab_size)

    def loss(self, batch, rng=None):
        """Mean of -log p over the targets of a batch; nothing is saved, for there is no backward.

        Parameters
        ----------
        batch : pair (inputs, targets) of ndarray of int, shape (B, T)
            A target of `IGNORE_INDEX` does not count.

        Returns
        -------
        loss : float, nats a target
        saved : None

        Raises
        ------
        ValueError, TypeError
            If no target counts, or an id is none of the vocabulary.
        """
        inputs, targets = batch
        counts = targets != IGNORE_INDEX                              # (B, T)
        if not counts.any():
            raise ValueError(f"NGramLanguageModel: every target is ignore_index={IGNORE_INDEX}; "
                             "leave such a batch out.")
        if self.counts is None:
            return float(np.log(self.config.vocab_size)), None
        # the token in the place of an ignored target: the next input, or any after the last one
        following = np.concatenate([inputs[:, 1:], inputs[:, :1]], axis=1)
        texts = np.where(counts, targets, following)
        rows = np.concatenate([inputs[:, :1], texts], axis=1)         # the first id is no target
        log_p = np.array([self.counts.log_probabilities(row)[1:] for row in rows])
        return -float(log_p[counts].mean()), None

    def step(self, ids, cache=None, left_padding=None):
        """Continue sequences: log-probabilities of the token after each new one.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
        cache : list of ndarray of int, optional
            What the last call returned: the last n - 1 tokens of each sequence.
        left_padding : ndarray of int, shape (B,), optional
            At the start: numbers of padding tokens before each sequence.

        Returns
        -------
        logits : ndarray of float64, shape (B, T, V)
        cache : list of ndarray of int
        """
        check_ids("NGramLanguageModel", "ids", ids, self.config.vocab_size)
        (B, T), V, after = ids.shape, self.config.vocab_size, []
        logits = np.full((B, T, V), -np.log(V))
        for b in range(B):
            first = 0 if left_padding is None else left_padding[b]
            row = np.concatenate([ids[b, :0] if cache is None else cache[b], ids[b, first:]])
            if self.counts is not None:
                for back in range(T - first):
                    p = self.counts.distribution(row[:len(row) - back])
                    logits[b, T - 1 - back] = np.log(p)
            after.append(row[max(0, len(row) - max(0, self.n - 1)):])
        return logits, after

    def costs(self):
        """As `numformer.analysis.count`: the counts are the parameters, and looking up is free."""
        size = sum(parameter.data.size for parameter in self.parameters())
        return {"parameters": size, "active_parameters": self.n, "flops_per_token": 0,
                "training_flops_per_token": 0, "kv_bytes_per_token": 0,
                "state_bytes": 8 * max(0, self.n - 1)}

    def replica(self):
        """The model itself: it has no gradients."""
        return self

    def named_parameters(self):
        """The counts of each k."""
        counts = [] if self.counts is None else self.counts.counts
        return [(f"counts.{k}", Parameter(each)) for k, each in enumerate(counts, 1)]

    def parameters(self):
        """The counts, without their names."""
        return [parameter for _, parameter in self.named_parameters()]

    def state_dict(self):
        """Codes and counts, as integer arrays."""
        return {} if self.counts is None else self.counts.to_arrays()

    def load_state_dict(self, state):
        """Load a `state_dict`.

        Raises
        ------
        ValueError, TypeError
            If it does not fit, or is of another vocabulary.
        """
        counts = KneserNey.from_arrays(state) if state else None
        if counts is not None and counts.vocab_size != self.config.vocab_size:
            raise ValueError("NGramLanguageModel: the counts are of "
                             f"vocab_size={counts.vocab_size}, not {self.config.vocab_size}.")
        self.counts = counts

    def __repr__(self):
        return f"NGramLanguageModel({self.counts!r})"

    def describe_model(self, reader):
        """Tables of counts instead of layers."""
        V = reader.letter("V", self.config.vocab_size)
        reader.at_most("T", self.config.context_length)
        reader.sizes["n"] = self.n or "chosen in training"
        counts = reader.function(("B", "T", "n", V), "Counts of n-grams", KneserNey,
                                 "a table for each length up to n",
                                 ("no gradient: counting maximizes the likelihood",))
        return reader.architecture(Column(TOKENS, (
            reader.function(("B", "T", "n - 1"), "Contexts", NGramLanguageModel,
                            "the last n - 1 tokens",
                            ("no gradient: nothing is trained by descent",)),
            counts._replace(parameters=sum(each.data.size for each in self.parameters())),
            reader.function(("B", "T", V), "Kneser-Ney smoothing", KneserNey,
                            "discounted counts, interpolated with those of shorter contexts",
                            ("no gradient",)))))
