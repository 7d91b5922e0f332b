"""The masked language model of the small world that these experiments look into."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from numformer.analysis import attention_by_layer, residual_stream
from numformer.backend import one_blas_thread
from numformer.data import tales
from numformer.experiments.training import trained, trainer_of
from numformer.models import Bert
from numformer.models.transformer import real_positions
from numformer.recipes.world.world_task import WorldTask

PRESET = "world-bert"
FIRST = 1                                             # the column of a tale's token 0, after [CLS]
MEASURED_SEED = 1                                     # of the tales; no model has read them


class WorldBert(NamedTuple):
    """A trained model, with what makes its rows.

    Parameters
    ----------
    model : Bert
    task : WorldMaskedTask
    tokenizer : WordTokenizer
    """

    model: Bert
    task: object
    tokenizer: object

    def rows(self, texts):
        """The `PassageRows` of texts, lists of words: word t is in column t + `FIRST`.

        All tokens are of segment 1, in which pre-training has the tales.
        """
        rows = WorldTask.rows(self.task, self.tokenizer, self.model.config,
                              [(words,) for words in texts])
        real = real_positions(rows.lengths, rows.ids.shape[1])
        return rows._replace(segments=real.astype(rows.segments.dtype))


@lru_cache(maxsize=1)
def pretrained(seed, steps=None):
    """The `WorldBert` of a seed; the experiments of a process share it."""
    trainer, task, tokenizer = trainer_of(PRESET, seed, steps,
                                          training=dict(eval_every=0, save_every=0))
    return WorldBert(trained(trainer).model, task, tokenizer)


def untrained(seed):
    """The same before its first step."""
    trainer, task, tokenizer = trainer_of(PRESET, seed)
    return WorldBert(trainer.model, task, tokenizer)


@lru_cache(maxsize=4)
def tales_of(count, held_out=True):
    """Tales to measure on, or to fit a probe to: the same for all seeds of the models."""
    return tuple(tales(count, MEASURED_SEED, held_out))


def hidden_states(model, rows):
    """The vectors of all tokens: of the embedding, and after each block.

    Returns
    -------
    list of ndarray, each of shape (N, T, C)
        The first one has the vectors of the embedding matrix, without positions.
    """
    parts = []
    with one_blas_thread():
        for first in range(0, len(rows.ids), 64):
            ids, segments, lengths, _ = (each[first : first + 64] for each in rows)
            stream = residual_stream(model, ids, segments, lengths)["backbone.encoder.blocks"]
            parts.append([model.backbone.embedding(ids), *stream[1:]])
    return [np.concatenate(layer) for layer in zip(*parts)]


def attention_of(model, rows):
    """The attention weights of all layers and heads: ndarray (N, layers, H, T, T)."""
    parts = []
    for first in range(0, len(rows.ids), 32):
        ids, segments, lengths, _ = (each[first : first + 32] for each in rows)
        weights = attention_by_layer(model, ids, segments, lengths)
        parts.append(np.stack(list(weights.values()), axis=1))
    return np.concatenate(parts)


def halves(count):
    """Two masks: even examples choose a layer or a head, odd ones measure it."""
    even = np.arange(count) % 2 == 0
    return even, ~even
