"""A batch: the examples that a model learns from in one step."""

from types import SimpleNamespace

import numpy as np

from numformer.checks import check_number
from numformer.functional import IGNORE_INDEX


class Batch(SimpleNamespace):
    """Named arrays with one row for each of B examples.

    A model's `loss` unpacks a batch as it would a tuple, so the order of the arrays matters:

    ======================  ==========================================================
    model                   arrays of its batch
    ======================  ==========================================================
    language model          inputs (B, T), targets (B, T)
    image classifier        inputs (B, ...), labels (B,)
    text classifier         ids (B, T), lengths (B,), labels (B,)
    encoder-decoder         inputs (B, S), lengths (B,), outputs (B, T), targets (B, T)
    BERT                    inputs, targets, segments (B, T), lengths, follows (B,)
    Sentence-BERT           anchors, positives, negatives (B, T), each followed by its
                            lengths (B,), then topics (B,)
    CLIP                    ids (B, T), images (B, ...), and maybe lengths (B,) of ids
    vision-language model   ids (B, T), images (B, ...), targets (B, T)
    forecaster              values (B, T), targets (B, T, K)
    ======================  ==========================================================

    Parameters
    ----------
    **arrays : ndarray, shape (B, ...)
        A target of `IGNORE_INDEX` does not count in the loss. `lengths` are the numbers of tokens
        of each row without its padding, which is on the right.

    Attributes
    ----------
    facts : dict of str to float
        What else is known of the batch as a whole, such as the mean reward of its answers. The
        metrics of the step keep it, and models do not see it. Set by `with_facts`; else empty.

    Examples
    --------
    >>> ids = np.array([[5, 6, 7], [8, 9, IGNORE_INDEX]])
    >>> batch = Batch(inputs=ids[:, :-1], targets=ids[:, 1:])
    >>> inputs, targets = batch
    >>> len(batch), batch.n_targets
    (2, 3)
    """

    __slots__ = "_facts",                             # not among the arrays

    @property
    def facts(self):
        return getattr(self, "_facts", {})

    def with_facts(self, **facts):
        """The same arrays, with facts: finite numbers by name.

        Raises
        ------
        ValueError, TypeError
            If one is not a finite number.

        Examples
        --------
        >>> Batch(inputs=np.zeros((2, 3))).with_facts(reward=0.5).facts
        {'reward': 0.5}
        """
        for name, number in facts.items():
            check_number("Batch", name, number)
        found = type(self)(**vars(self))
        found._facts = {name: float(number) for name, number in facts.items()}
        return found

    def __iter__(self):
        return iter(vars(self).values())

    def __len__(self):
        return len(next(iter(self)))

    @property
    def n_targets(self):
        """How many targets the loss is a mean over: the weight of this batch in a mean.

        A batch without `targets` has a label for each example; one of `IGNORE_INDEX` does not
        count. A batch without such labels has a target for each example. Targets that are floats
        are numbers to predict, and all count. Where a loss has several parts, the model counts for
        each of them: see `LossOfParts`.
        """
        targets = getattr(self, "targets", None)
        if targets is None:
            targets = getattr(self, "labels", None)
            if np.ndim(targets) != 1:
                return len(self)
        targets = np.asarray(targets)
        if targets.dtype.kind == "f":
            return targets.size
        return int((targets != IGNORE_INDEX).sum())

    def split(self, parts):
        """Cut into at most `parts` batches of consecutive rows, of similar sizes; none is empty.

        Examples
        --------
        >>> rows = np.arange(10).reshape(5, 2)
        >>> [len(part) for part in Batch(inputs=rows, targets=rows).split(2)]
        [3, 2]
        """
        parts = min(parts, len(self))
        cut = zip(*(np.array_split(array, parts) for array in self))
        return [type(self)(**dict(zip(vars(self), arrays))) for arrays in cut]
