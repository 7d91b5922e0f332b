"""Batches of corrupted texts to restore, as T5 and BART are pretrained on."""

import numpy as np

from numformer.checks import check_number
from numformer.data.batches.epochs import Epochs, EpochStream
from numformer.data.batches.pairs import PairBatch, check_special, pair_batch
from numformer.functional import IGNORE_INDEX
from numformer.seeds import NOISE, WRONG_INPUTS, branch


class NoiseStream(EpochStream):
    """Batches of texts to restore, without end: sources are the texts after fresh noise.

    Noise is new in every epoch. That of a text depends on the seed, the epoch and the index of the
    text alone, not on its batch. Texts of similar length share a batch, as in `PairStream`.

    Parameters
    ----------
    texts : list
        What the noise takes: for each text an array of token ids, or a list of one array for each
        of its sentences.
    noise : callable
        ``noise(text, rng) -> (source, target)``, such as `corrupt_spans` with its other arguments.
    batch_size, seed, padding, bos, eos
        As in `PairStream`.
    wrong_inputs : float in [0, 1)
        Probability with which each token of the decoder's input (after BOS) is replaced by a random
        one from the batch's targets. The targets stay as they are, so the model learns to go on
        after a wrong token, such as those it generates itself.

    Raises
    ------
    ValueError, TypeError
        If there are no texts, or one is not an array; `batch` raises what `noise` and `pair_batch`
        do.

    References
    ----------
    Bengio, Vinyals, Jaitly and Shazeer (2015), "Scheduled Sampling for Sequence Prediction with
    Recurrent Neural Networks", section 2.3, on errors that a model never saw in training. Bowman et
    al. (2016), "Generating Sentences from a Continuous Space", section 3.2, drop words of the
    decoder's input.

    Examples
    --------
    >>> def noise(text, rng):
    ...     return rng.permutation(text), text
    >>> stream = NoiseStream([np.array([5, 6, 7])], noise, 1, seed=0, padding=0, bos=1, eos=2)
    >>> stream.batch(0).targets.tolist()
    [[5, 6, 7, 2]]
    >>> stream.batch(0).inputs.tolist(), stream.batch(1).inputs.tolist()
    ([[7, 6, 5]], [[6, 7, 5]])
    """

    def __init__(self, texts, noise, batch_size, seed, padding, bos, eos, wrong_inputs=0.0):
        check_special("NoiseStream", padding, bos, eos)
        check_number("NoiseStream", "wrong_inputs", wrong_inputs, least=0, below=1)
        lengths = [_size(text) for text in texts]
        super().__init__(Epochs(len(texts), batch_size, seed, lengths))
        self.texts, self.noise, self.seed = texts, noise, seed
        self.special, self.wrong_inputs = (padding, bos, eos), wrong_inputs

    def build(self, rows, epoch, step):
        rngs = (branch(self.seed, NOISE, epoch, int(row)) for row in rows)
        pairs = [self.noise(self.texts[row], rng) for row, rng in zip(rows, rngs)]
        batch = pair_batch(pairs, *self.special)
        if self.wrong_inputs:
            rng = branch(self.seed, WRONG_INPUTS, step)
            batch = with_wrong_inputs(batch, self.wrong_inputs, rng)
        return batch


def with_wrong_inputs(batch, rate, rng):
    """The `PairBatch` with each decoder input after BOS replaced with probability `rate`."""
    inputs, lengths, outputs, targets = batch
    is_token = targets != IGNORE_INDEX                                # (B, T)
    is_token[:, 0] = False                                            # BOS stays
    wrong = is_token & (rng.random(is_token.shape) < rate)
    outputs = outputs.copy()
    outputs[wrong] = rng.choice(outputs[is_token], wrong.sum())
    return PairBatch(inputs=inputs, lengths=lengths, outputs=outputs, targets=targets)


def _size(text):
    """Tokens of a text, or of all sentences of a list."""
    sentences = text if isinstance(text, list) else [text]
    if not all(isinstance(sentence, np.ndarray) for sentence in sentences):
        raise TypeError("NoiseStream: every text must be an array of ids, or a list of such "
                        "arrays, one for each sentence.")
    return sum(sentence.size for sentence in sentences)
