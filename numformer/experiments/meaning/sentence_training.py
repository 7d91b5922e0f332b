"""What the experiments on sentences share: tuning a Sentence-BERT from the pre-trained model."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import Batch
from numformer.experiments.training import trained
from numformer.finite import check_logits
from numformer.models import (
    SentenceBertConfig, backbone_options, load_pretrained_backbone)
from numformer.recipes.library.library_task import in_batches
from numformer.recipes.recipe_table import recipe_of
from numformer.recipes.world.world_bert import CONTENT, WORLD
from numformer.recipes.world.world_task import WorldTask
from numformer.seeds import WEIGHTS, branch
from numformer.training import Trainer, TrainingConfig


class SampledBatches:
    """A stream of batches that a function makes, each with a generator of its step.

    Parameters
    ----------
    make : callable
        ``make(rng) -> Batch``.
    seed : int
    """

    def __init__(self, make, seed):
        self.make, self.seed = make, seed

    def batch(self, step):
        return self.make(np.random.default_rng([self.seed, 7, step]))


def sentence_bert(bert, objective, seed, **options):
    """A `SentenceBert` with the backbone of a `WorldBert`, before it is tuned."""
    config = SentenceBertConfig(**backbone_options(bert.model.config), objective=objective,
                                **options)
    recipe = recipe_of("SentenceBert", CONTENT)
    model = recipe.model("SentenceBert", config, branch(seed, WEIGHTS))
    load_pretrained_backbone(model, bert.model)
    return model


def tuned(model, make, seed, steps, learning_rate=0.003):
    """The same model after some steps on batches that `make` makes."""
    settings = dict(WORLD, steps=steps, warmup_steps=min(10, steps), learning_rate=learning_rate,
                    seed=seed, eval_every=0, save_every=0)
    stream = SampledBatches(make, seed)
    return trained(Trainer(model, stream, [], TrainingConfig.from_dict(settings))).model


def sentence_rows(bert, texts):
    """The `PassageRows` of texts, lists of words."""
    return WorldTask.rows(bert.task, bert.tokenizer, bert.model.config,
                          [(words,) for words in texts])


def sentence_vectors(model, rows):
    """A vector for each row of `SentenceBert`: (N, C)."""
    with one_blas_thread():
        return in_batches(model, [rows.ids, rows.lengths])


def mean_of_words(model, rows):
    """The mean of the word embeddings of each row, without context: (N, C)."""
    x = model.backbone.embedding(rows.ids)                            # (N, T, C)
    t = np.arange(rows.ids.shape[1])
    words = ((t > 0) & (t < rows.lengths[:, None] - 1))[..., None]
    return (x * words).sum(axis=1) / words.sum(axis=1)


def parts(*rows):
    """Ids and lengths of several `PassageRows`, as the arrays of a batch."""
    return {f"{name}{k}": array for k, each in enumerate(rows)
            for name, array in (("ids", each.ids), ("lengths", each.lengths))}


def batch_of(*rows, last):
    """The `Batch` of some rows and of what comes last: topics or labels."""
    return Batch(**parts(*rows), last=np.asarray(last))


def cosines(a, b):
    """The cosines of all pairs, (N, M), in float64."""
    a, b = (x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
            for x in (a, b))
    return a @ b.T


def ranks(scores, right):
    """The rank of the right candidate of each query, 0 for the best; ties count half.

    Examples
    --------
    >>> ranks(np.array([[0.9, 0.1, 0.5], [0.2, 0.2, 0.7]]), np.array([2, 0]))
    array([1. , 1.5])
    """
    check_logits("ranks", scores)                     # NaN would be above all
    own = scores[np.arange(len(right)), right][:, None]
    above, ties = (scores > own + 1e-9).sum(axis=1), (np.abs(scores - own) <= 1e-9).sum(axis=1) - 1
    return above + ties / 2


def recall(rank, k):
    """The fraction of queries whose right candidate is among the best k."""
    return float((rank < k).mean())
