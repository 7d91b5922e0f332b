"""TinyBERT: a small classifier of topics, from 64 labels alone or from a teacher as well."""

from copy import copy

from numformer.data import LabelledRows, topic_passages
from numformer.functional import IGNORE_INDEX
from numformer.models import check_teacher, taught
from numformer.recipes.library.bert import BERT, CONTENT, LIBRARY
from numformer.recipes.library.fine_tuning import TOPICS, FewTopicsTask
from numformer.recipes.preset import Preset, more


class TaughtStream:
    """The batches of a stream with a teacher's part: see `taught`.

    The teacher reads each batch when it is needed, so the stream needs little memory and is, like
    any other, a function of the seed and the step.
    """

    def __init__(self, stream, teacher, n_layers):
        self.stream, self.teacher, self.n_layers = stream, teacher, n_layers

    def batch(self, step):
        """The batch of a step."""
        return taught(self.stream.batch(step), self.teacher, self.n_layers)


class TinyBertTask(FewTopicsTask):
    """Classify passages by their topic with a small student, from eight passages of each topic.

    ``--from RUN`` takes the classifier of a run of `topics` or `few-topics` as the teacher. The
    teacher also labels all other passages of the training part, whose own labels stay unknown.
    """

    name = "taught-topics"
    from_the_data = FewTopicsTask.from_the_data | {"teacher_width"}
    teachers = ("topics", "few-topics")
    teacher = None

    def with_teacher(self, teacher):
        """The same task with a teacher, a `BertClassifier`."""
        task = copy(self)
        task.teacher = teacher
        return task

    def check_student(self, config):
        check_teacher(config, self.teacher)

    def options(self, tokenizer):
        if self.teacher is None:
            return super().options(tokenizer)
        return {**super().options(tokenizer), "teacher_width": self.teacher.config.d_model}

    def examples(self, tokenizer, config, held_out):
        """The `LabelledRows` of one part; without labels what only the teacher labels."""
        if held_out or self.teacher is None:
            return super().examples(tokenizer, config, held_out)
        known = dict(topic_passages(TOPICS, each=self.each)[0])
        labels = dict.fromkeys((text for text, _ in topic_passages(TOPICS)[0]), IGNORE_INDEX)
        labels |= known
        return LabelledRows(self.single_rows(tokenizer, config, list(labels)),
                            list(labels.values()))

    def stream(self, dataset, tokenizer, config, training):
        stream = super().stream(dataset, tokenizer, config, training)
        return stream if self.teacher is None else TaughtStream(
            stream, self.teacher, config.n_layers)


_MODEL = dict(BERT, n_layers=2, d_model=48, dropout=0.1)
_TRAINING = dict(LIBRARY, steps=400, learning_rate=0.005, warmup_steps=20, eval_every=100)

PRESETS = {
    "tinybert": Preset(
        _MODEL, _TRAINING, TinyBertTask(), "TinyBert", CONTENT,
        (more("accuracy"),),
        {"few-topics-from-bert": (more("accuracy", ahead_of=("tinybert",)),)}),
}
