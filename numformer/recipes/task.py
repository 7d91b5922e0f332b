"""A task: its dataset, the models that can learn it, and how they are measured."""

import math
from abc import ABC, abstractmethod
from copy import copy

import numpy as np

from numformer.data import DataError
from numformer.recipes.recipe import Recipe
from numformer.training import Trainer

MAP_TOKENS = 16                                       # of the maps of heads


class Task(ABC):
    """A task keeps nothing of a run: what it needs are arguments.

    Its settings, a recipe and for some a teacher, are those of a copy: see `with_recipe`.

    Attributes
    ----------
    name : str
        Checkpoints name the task by it.
    kinds : tuple of str
        Of `numformer.models.KINDS`: models that can learn it besides those of its presets.
    unit : str
        Of the loss; see `unit_of`.
    from_the_data : set of str
        Settings of a model that come with the data; they have no flag.
    recipe : Recipe
        What the run adds to the published model, and how it prepares the data.
    teachers : tuple of str
        The tasks whose runs ``--from`` may name as the teacher of this one, which then has
        ``with_teacher(model)``; without any, ``--from`` names a run to begin with.
    begins_as_teacher : bool
        Whether a run begins with the weights of its teacher, too.
    measured_before : bool
        Whether a run calls `measure` before training as well, to show what training gains.
    unused : set of str
        Settings of a `TrainingConfig` without an effect on its trainer: their flags are refused.
    default_data : str or None
        The dataset without ``--data``; None if the task generates its examples.
    published : dict
        Files of the folder that an imported model came from, by name: see `with_recipe`.
    needed_prompt : str
        What a prompt has to be, of a task that has no examples of its own.
    has_tokens : bool
        Whether the data are tokens; otherwise its tokenizer is None.
    """

    name = ""
    kinds = ()
    unit = "nats per token"
    from_the_data = frozenset()
    unused = frozenset()
    default_data = None
    has_tokens = True
    measured_before = False
    teachers = ()
    begins_as_teacher = False
    recipe = Recipe()
    published = {}
    needed_prompt = ""

    def with_recipe(self, recipe, published=None):
        """The same task with another recipe, and the published files of a run."""
        task = copy(self)
        task.recipe = recipe
        if published is not None:
            task.published = published
        return task

    def check_student(self, config):
        """ValueError if a model of this config cannot learn from the teacher."""

    def load(self, data):
        """The dataset of that name or file, with `name`, `sha256` and a length; else DataError."""
        raise DataError(f"the task {self.name} makes its own examples; leave --data out.")

    @abstractmethod
    def tokenizer(self, dataset):
        """The tokenizer of the dataset, or None."""

    def options(self, tokenizer):
        """The settings in `from_the_data`, with their values."""
        return {"vocab_size": len(tokenizer)}

    @abstractmethod
    def stream(self, dataset, tokenizer, config, training):
        """Training batches without end, for a `Trainer`; DataError if the dataset is too short."""

    @abstractmethod
    def validation(self, dataset, tokenizer, config, blocks=None):
        """Batches of held-out examples; of a number of them for an estimate."""

    def unit_of(self, tokenizer):
        """The unit of the loss of a run with this tokenizer."""
        return self.unit

    def n_characters(self, batches, tokenizer):
        """How many characters of text the targets of batches are; None if they are no text."""
        if self.unit_of(tokenizer) == "nats per character":
            return sum(batch.n_targets for batch in batches)
        return None

    def bits_per_character(self, loss, batches, tokenizer):
        """From the mean loss over batches, in nats per target; None if they are no text."""
        n_characters = self.n_characters(batches, tokenizer)
        if not n_characters:
            return None
        n_targets = sum(batch.n_targets for batch in batches)
        return loss / math.log(2) * (n_targets / n_characters)

    def trainer(self, model, stream, validation, training):
        """The trainer of a model."""
        return Trainer(model, stream, validation, training)

    def sample(self, model, tokenizer, rng):
        """A few lines that show what a model does, for the log of a run."""
        return ""

    def answer(self, model, tokenizer, text):
        """(answer, number of generated tokens) for a text; ValueError if the text does not fit.

        None for a model that continues texts instead.
        """
        return None

    def reading(self, model, tokenizer, text=None):
        """The `Reading` of a text, or of a held-out one: a model's inputs with their labels.

        ValueError if the text does not fit.
        """
        raise ValueError(f"the task {self.name} has no texts to look at.")

    def held_out_ids(self, load, tokenizer, most):
        """The first ids of a held-out text, of a dataset that is loaded if there is one; or None.
        """
        return None

    def held_out_rows(self, tokenizer, config):
        """The `PassageRows` of held-out texts for an encoder, or None."""
        return None

    def separator(self, tokenizer):
        """The id of the token between the parts of an input, or None."""
        return None

    def repeating(self, config, tokenizer, count, rng):
        """Sequences that an induction head predicts.

        Returns
        -------
        sequences : ndarray of int, shape (count, T)
            Random tokens, and the same again.
        queries : ndarray of bool, shape (count, T), or None
            The tokens to measure at; None for all.
        shown : ndarray of int
            A short one.
        """
        half = max(1, config.context_length // 2)
        ids = rng.integers(len(tokenizer.special), len(tokenizer), (count, half))
        return np.tile(ids, 2), None, np.tile(ids[0, :MAP_TOKENS // 2], 2)

    def source_ids(self, tokenizer, text):
        """The token ids of a text that a user gives."""
        return tokenizer.encode(text)

    def max_tokens(self, config):
        """The longest text that a model can read, in tokens; None without a limit."""
        return getattr(config, "context_length", None)

    def pictures(self, model, tokenizer):
        """Pictures of a trained model: {file name: Axes}."""
        return {}

    def measure(self, model, tokenizer, dataset):
        """Measures in addition to the loss, on held-out examples: {name: number}."""
        return {}
