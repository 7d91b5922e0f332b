"""What a run is about: where its examples come from, which models learn from them, and what is said of the result."""

from abc import ABC, abstractmethod

from numformer.datasets import DataError
from numformer.training import Trainer


class Task(ABC):
    """A task without a state of its own: what it needs of a run comes in as arguments.

    Attributes
    ----------
    name : str
        A checkpoint keeps it, and finds its task by it.
    kinds : tuple of str
        Of `numformer.models.KINDS`: the models that can learn it.
    unit : str
        Of the loss.
    from_the_data : set of str
        Settings of a model that come with the data: no flag sets them.
    measured_before : bool
        Whether `measure` says something of a model before it was trained on this task, too: what training was worth.
    unused : set of str
        Settings of a `TrainingConfig` that mean nothing to its trainer: their flags are refused.
    default_data : str or None
        What is learned from where no ``--data`` was given; None where the task makes its examples by a rule.
    tokens : bool
        Whether its material is made of tokens; without, its tokenizer is None.
    """

    name = ""
    kinds = ()
    unit = "nats a token"
    from_the_data = frozenset()
    unused = frozenset()
    default_data = None
    tokens = True
    measured_before = False

    def load(self, data):
        """The material of that name or file, with a `name`, a `sha256` and a length; DataError where there is none."""
        raise DataError(f"the task {self.name} makes its own examples; leave --data out.")

    @abstractmethod
    def tokenizer(self, material):
        """The tokenizer of the material, or None."""

    def switches(self, tokenizer):
        """The settings in `from_the_data`, with their values."""
        return {"vocab_size": len(tokenizer)}

    @abstractmethod
    def stream(self, material, tokenizer, config, training):
        """Batches without end, for a `Trainer`; DataError where the material is too short for the model."""

    @abstractmethod
    def validation(self, material, tokenizer, config, blocks=None):
        """Batches to measure on, of held-out material alone; of only so many blocks for an estimate."""

    def trainer(self, model, stream, validation, training):
        """What trains a model of this task."""
        return Trainer(model, stream, validation, training)

    def sample(self, model, tokenizer, rng):
        """A few lines to look at while a model trains."""
        return ""

    def answer(self, model, tokenizer, text):
        """(answer, tokens): what a model makes of a text, and how many tokens it wrote; ValueError where the text does not fit.

        None of a model that answers no texts, or goes on with them instead.
        """
        return None

    def reading(self, model, tokenizer, text=None):
        """What a model is given to look at how it reads a text, or something that was held out where none is given: a `Reading`.

        ValueError where the text does not fit.
        """
        raise ValueError(f"the task {self.name} has no texts to look at.")

    def source_ids(self, tokenizer, text):
        """The ids of a text that is to be read."""
        return tokenizer.encode(text)

    def room(self, config):
        """How many pieces of a text a model can read at most; None where nothing limits it."""
        return getattr(config, "context_length", None)

    def pictures(self, model, tokenizer):
        """Pictures of a trained model: {name of a file: Axes}."""
        return {}

    def measure(self, model, tokenizer, material):
        """What is measured beside the loss, on held-out material: {name: number}."""
        return {}
