"""A trainer for models that count: the same run, without a gradient."""

import time

from numformer.training.trainer import Trainer


class CountingTrainer(Trainer):
    """Fit an n-gram model, step by step: step n counts the n-grams of the whole text. So validations show what longer ones gain.

    Parameters
    ----------
    model : NGramLanguageModel
    stream : BlockStream
        Its `ids` are the text.
    validation, config
        As in `Trainer`; `steps` is how long the n-grams become, and what concerns gradients means nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.models import NGramLanguageModel, NGramLanguageModelConfig
    >>> from numformer.training import BlockStream, TrainingConfig
    >>> model = NGramLanguageModel(NGramLanguageModelConfig(vocab_size=5, context_length=8))
    >>> stream = BlockStream(np.arange(1000) % 5, context_length=8, batch_size=1, seed=0)
    >>> trainer = CountingTrainer(model, stream, [], TrainingConfig(steps=2))
    >>> [round(trainer.train_step()["loss"], 2) for _ in range(2)]    # alone an id says nothing, after another one everything
    [1.61, 0.0]
    """

    def train_step(self):
        """Count anew, n-grams that are longer by one.

        Returns
        -------
        dict
            ``step``, which is n, and ``loss``: nats a token on the text itself, after the step.
        """
        started, ids = time.perf_counter(), self.stream.ids
        self.model.fit(ids, self.step + 1)
        loss = self.model.loss((ids[None, :-1], ids[None, 1:]))[0]
        self.step += 1
        self.tokens += len(ids)
        self.seconds += time.perf_counter() - started
        return {"step": self.step, "loss": loss}
