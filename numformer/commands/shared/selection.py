"""A run, and which view, layer and head of its attention to draw."""

from typing import NamedTuple

from numformer.analysis.attention_views import attention_views
from numformer.backend import one_blas_thread
from numformer.commands import UsageError
from numformer.terminal import did_you_mean


class Run(NamedTuple):
    """A run, and the options of its picture.

    Parameters
    ----------
    folder : str
    model, tokenizer, facts, task
        From `load_run`.
    chosen : Namespace
        ``text``, ``view``, ``layer``, ``head``, ``query``, ``token`` and ``data``, each None unless
        given. Layers and heads count from 1, queries from 0.
    """

    folder: str
    model: object
    tokenizer: object
    facts: dict
    task: object
    chosen: object

    def reading(self):
        """The input of the model."""
        try:
            with one_blas_thread():
                return self.task.reading(self.model, self.tokenizer, self.chosen.text)
        except ValueError as error:
            raise UsageError(f"--text: {error}" if self.chosen.text is not None
                             else str(error)) from None

    def view(self, default=None, first=False):
        """The attention chosen with --view, or the default, or the last or first."""
        views = {view.name: view for view in attention_views(self.model, self.reading())}
        name = (self.chosen.view if self.chosen.view is not None else default
                or list(views)[0 if first else -1])
        if name not in views:
            raise UsageError(f"{self.folder} has no view {name!r}"
                             f"{did_you_mean(name, views)}; choose from {', '.join(views)}.")
        return views[name]

    def layer(self, view):
        """The index of the chosen layer, or of the last, from 0."""
        return (_numbered("--layer", self.chosen.layer, len(view.weights))
                if self.chosen.layer is not None else len(view.weights) - 1)

    def head(self, view):
        """The index of the chosen head, from 0; None for all."""
        return None if self.chosen.head is None else _numbered("--head", self.chosen.head,
                                                               len(view.weights[0]))

    def weights(self, view):
        """The weights (T, S) of the chosen layer and head, and their name."""
        layer, head = self.layer(view), self.head(view)
        weights = view.weights[layer].mean(axis=0) if head is None else view.weights[layer][head]
        return weights, f"layer {layer + 1}, " + ("mean of its heads" if head is None
                                                  else f"head {head + 1}")


def _numbered(flag, number, count):
    """An index from 0 of a number from 1."""
    if not 1 <= number <= count:
        raise UsageError(f"{flag} {number} must be 1 to {count}.")
    return number - 1
