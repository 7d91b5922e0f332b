"""What `numformer train` can learn: tasks, and named settings for each."""

from numformer.tasks.claims import CLAIMS, Claim, parts_of
from numformer.tasks.dates import DateTask
from numformer.tasks.denoise import DenoiseTask
from numformer.tasks.digits import DigitTask
from numformer.tasks.instructions import InstructionTask
from numformer.tasks.masked import MaskedTask
from numformer.tasks.ngrams import NGramTask
from numformer.tasks.pairs import PairTask
from numformer.tasks.presets import PRESETS, Preset
from numformer.tasks.sentences import PassageTask
from numformer.tasks.spans import SpanTask
from numformer.tasks.task import Task
from numformer.tasks.text import TextTask, first_prompt
from numformer.tasks.topics import FewTopicsTask, TopicTask
from numformer.tasks.translate import TranslateTask

TASKS = {task.name: task for task in (
    TextTask(), NGramTask(), DateTask(), TranslateTask(), MaskedTask(), TopicTask(), FewTopicsTask(), PassageTask(), InstructionTask(),
    DenoiseTask(), SpanTask(), DigitTask())}

__all__ = ["CLAIMS", "Claim", "PRESETS", "PairTask", "Preset", "TASKS", "Task", "first_prompt", "parts_of"]
