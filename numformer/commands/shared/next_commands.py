"""What there is to see of a run, and to do with it: the commands that its model can take."""

from numformer.analysis.attention_views import attention_views
from numformer.backend import one_blas_thread
from numformer.commands.shared.output import COLUMNS
from numformer.commands.views.film import has_film
from numformer.terminal import shell_word


def next_commands(task, model, tokenizer, folder, snapshots=None):
    """Lines of commands, each with what it shows where that fits.

    Parameters
    ----------
    task : Task
    model : Layer
    tokenizer : Tokenizer or None
    folder : str
        Of the run.
    snapshots : int, optional
        How many states of the training it keeps.

    Returns
    -------
    list of str
    """
    shown = {f"sample {shell_word(folder)}": "what it writes"} if hasattr(model, "step") else {}
    shown[f"eval {shell_word(folder)}"] = "the loss on all held-out data"
    if has_attention(task, model, tokenizer):
        shown[f"plot attention {shell_word(folder)}"] = "who attends to whom"
        shown[f"explore {shell_word(folder)}"] = "a page to click through layers and heads"
    if snapshots and has_film(task, model):
        shown[f"replay {shell_word(folder)}"] = "the training as a film"
    width = max(map(len, shown))
    lines = (f"  numformer {command:{width}}  # {what}" for command, what in shown.items())
    return [line if len(line) <= COLUMNS else line.partition("  # ")[0].rstrip() for line in lines]


def has_attention(task, model, tokenizer):
    """Whether there is attention to look at, for an input of the task's own."""
    try:
        with one_blas_thread():
            return bool(attention_views(model, task.reading(model, tokenizer)))
    except ValueError:
        return False
