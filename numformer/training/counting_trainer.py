"""A trainer for n-gram models: the same run, with counts in place of gradients."""

import time

from numformer.checks import check_whole
from numformer.training.trainer import Trainer

MOST_N = 1000                                         # tokens of an n-gram; each n is counted again


class CountingTrainer(Trainer):
    """Fit an n-gram model: step n counts the n-grams of the whole text.

    So successive validations show what longer n-grams gain.

    Parameters
    ----------
    model : NGramLanguageModel
    stream : BlockStream
        Its `ids` are the text.
    validation, config
        As in `Trainer`; `steps` is the largest n, and settings of gradients have no effect.

    Raises
    ------
    ValueError
        If the largest n is above 1000.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.data import BlockStream
    >>> from numformer.models import NGramLanguageModel, NGramLanguageModelConfig
    >>> from numformer.training import TrainingConfig
    >>> model = NGramLanguageModel(NGramLanguageModelConfig(vocab_size=5, context_length=8))
    >>> stream = BlockStream(np.arange(1000) % 5, context_length=8, batch_size=1, seed=0)
    >>> trainer = CountingTrainer(model, stream, [], TrainingConfig(steps=2))
    >>> [round(trainer.train_step()["loss"], 2) for _ in range(2)]    # bigrams predict this text
    [1.61, 0.0]
    """

    def __init__(self, model, stream, validation, config):
        check_whole("CountingTrainer", "steps, the largest n", config.steps, most=MOST_N)
        super().__init__(model, stream, validation, config)

    def train_step(self):
        """Count again, n-grams that are longer by one.

        Returns
        -------
        dict
            ``step``, which is n, and ``loss``: nats per token on the text itself, after the step.
        """
        started, ids = time.perf_counter(), self.stream.ids
        self.model.fit(ids, self.step + 1)
        loss = self.model.loss((ids[None, :-1], ids[None, 1:]))[0]
        self.step += 1
        self.n_targets += len(ids)
        self.seconds += time.perf_counter() - started
        return {"step": self.step, "loss": loss}
