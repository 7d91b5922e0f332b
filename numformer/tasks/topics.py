"""The task of a classifier on BERT: which topic of the library is a passage about?"""

from numformer.datasets import topic_passages
from numformer.tasks.library import VALIDATION_BATCH, LibraryTask, in_batches
from numformer.training import LabelledRows, PassageStream, consecutive_passages, passage_rows

TOPICS = 8


class TopicTask(LibraryTask):
    """Train on passages of eight topics, as many of each; the loss is the mean over held-out ones.

    There are a thousand passages. ``--from RUN`` begins with the trunk of a BERT.
    """

    name = "topics"
    each = None                                                       # passages of each topic to train on; None: all
    kinds = ("BertClassifier",)
    unit = "nats a passage"
    from_the_data = frozenset({"vocab_size", "n_classes"})

    def switches(self, tokenizer):
        return {**super().switches(tokenizer), "n_classes": TOPICS}

    def examples(self, tokenizer, config, held_out):
        """The `LabelledRows` of one part of the library."""
        passages, _ = topic_passages(TOPICS, held_out=held_out, each=None if held_out else self.each)
        texts, labels = zip(*passages)
        rows = passage_rows([(ids,) for ids in self.encoded(tokenizer, texts)], config.context_length, *self.layout(tokenizer))
        return LabelledRows(rows, labels)

    def stream(self, material, tokenizer, config, training):
        return PassageStream(self.examples(tokenizer, config, held_out=False), training.batch_size * training.accumulation, training.seed)

    def validation(self, material, tokenizer, config, blocks=None):
        return consecutive_passages(self.examples(tokenizer, config, held_out=True), VALIDATION_BATCH, blocks)

    def sample(self, model, tokenizer, rng):
        """A held-out passage, its topic, and what the model takes it for."""
        passages, names = topic_passages(TOPICS, held_out=True)
        text, label = passages[int(rng.integers(len(passages)))]
        rows = passage_rows([(tokenizer.encode(text),)], model.config.context_length, *self.layout(tokenizer))
        return f"{text} -> {names[int(model(rows.ids)[0].argmax())]} ({names[label]})"

    def answer(self, model, tokenizer, text):
        """The name of its topic."""
        return topic_passages(TOPICS, held_out=True)[1][int(model(self.row(tokenizer, model.config, text))[0].argmax())], 0

    def measure(self, model, tokenizer, material):
        """The part of the held-out passages whose topic is found; guessing finds one in eight."""
        examples = self.examples(tokenizer, model.config, held_out=True)
        logits = in_batches(model, [examples.rows.ids, examples.rows.lengths])
        return {"accuracy": float((logits.argmax(axis=-1) == examples.labels).mean())}


class FewTopicsTask(TopicTask):
    """The same with eight passages of each topic: now it matters what a model has read before."""

    name = "few-topics"
    each = 8
