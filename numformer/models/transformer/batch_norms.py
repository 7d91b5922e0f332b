"""BatchNorms of an encoder: each forward gives them its padding mask, and statistics or none."""

from copy import copy

from numformer.layers import BatchNorm
from numformer.models.transformer.padding import real_positions


class BatchNormsOfCall:
    """What all BatchNorms of one forward share, and what they saved.

    A `BatchNorm` needs more than its input: which vectors are padding, and at inference the
    statistics that were gathered before. Blocks pass an input alone to their norms. So one forward
    runs on copies of the blocks, with the same layers, whose norms have both already. The backward
    of the blocks themselves then reads what was saved.

    Parameters
    ----------
    statistics : list of BatchStatistics, optional
        For inference: of each BatchNorm in the order of the forward, as `updated` returns them.
        None for those of the batch itself.

    Attributes
    ----------
    mask : ndarray of bool, shape (B, T), or None
        True for real vectors. The model sets it.

    Raises
    ------
    ValueError
        If there are fewer statistics than norms.
    """

    def __init__(self, statistics=None):
        self.statistics, self.mask = statistics, None
        self.saved = []                                       # (BatchNorm, its saved), in order

    def norm(self, norm):
        """A norm for this forward; any but a BatchNorm as it is."""
        return _NormOfCall(norm, self) if isinstance(norm, BatchNorm) else norm

    def block(self, block):
        """A copy of a block, with the same sublayers, and its norms for this forward."""
        block = copy(block)
        block.branches = {name: copy(branch) for name, branch in block.branches.items()}
        for branch in block.branches.values():
            for name in ("input_norm", "output_norm", "sum_norm"):
                setattr(branch, name, self.norm(getattr(branch, name)))
        return block

    def of_lengths(self, lengths, T):
        """This object, with the mask of texts of these lengths; None: without padding."""
        self.mask = real_positions(lengths, T)
        return self

    def updated(self, statistics=None, momentum=0.1):
        """The running statistics after this forward: a new list, see `gathered_statistics`."""
        before = [None] * len(self.saved) if statistics is None else statistics
        return [norm.updated(old, saved, momentum)
                for old, (norm, saved) in zip(before, self.saved, strict=True)]


def running_statistics(encoder, batches, momentum=0.1):
    """Statistics for inference: averages over batches of the training data, with fixed weights.

    Parameters
    ----------
    encoder : BertEncoder or Encoder
        Of a config with ``norm="batch_norm"``.
    batches : iterable of dict
        Arguments of its `forward` by name.
    momentum : float, above 0 and below 1
        The weight of each batch.

    Returns
    -------
    list of BatchStatistics
        For `encoder.statistics`, or None without batches.

    References
    ----------
    Ioffe and Szegedy (2015), "Batch Normalization", algorithm 2, steps 8 to 11.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.models.transformer import Encoder, EncoderConfig
    >>> config = EncoderConfig(n_layers=1, n_heads=2, d_model=4, norm="batch_norm")
    >>> encoder, x = Encoder(config, np.random.default_rng(0)), np.eye(4, dtype=np.float32)[None]
    >>> encoder.statistics = running_statistics(encoder, [dict(x=x)])
    >>> len(encoder.statistics), encoder(x[:, :1]).shape       # one vector is enough at inference
    (3, (1, 1, 4))
    """
    statistics = None
    for inputs in batches:
        call = BatchNormsOfCall()
        encoder.forward(**inputs, batch_norms=call)
        statistics = call.updated(statistics, momentum)
    return statistics


class _NormOfCall:
    def __init__(self, norm, call):
        self._norm, self._call = norm, call

    def forward(self, x):
        call, statistics = self._call, None
        if call.statistics is not None:
            if len(call.saved) >= len(call.statistics):
                raise ValueError(f"BatchNormsOfCall: {len(call.statistics)} statistics came for "
                                 "more BatchNorms; gather them from the same model.")
            statistics = call.statistics[len(call.saved)]
        y, saved = self._norm.forward(x, statistics, call.mask)
        call.saved.append((self._norm, saved))
        return y, saved
