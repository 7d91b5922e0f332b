"""A run with the options of its picture: what its pages in `numformer.plots` draw."""

from typing import NamedTuple

import numpy as np

from numformer.analysis.attention_views import attention_views
from numformer.backend import one_blas_thread
from numformer.commands import UsageError
from numformer.commands.views.states import States
from numformer.runs import RunFolder, Snapshots
from numformer.runs.load_run import run_corpus
from numformer.terminal import did_you_mean

FEWEST_STATES, MOST_STATES = 3, 40                    # of a path


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

    def query(self, view):
        """The position of the chosen query, or of the last, from 0."""
        T, t = len(view.queries), self.chosen.query
        if t is not None and not 0 <= t < T:
            raise UsageError(f"--query {t} must be one of the {T} positions of the text, counted "
                             "from 0.")
        return T - 1 if t is None else t

    def token(self):
        """The id of --token, or None."""
        if self.chosen.token is None:
            return None
        ids = self.tokenizer.encode(self.chosen.token)
        if len(ids) != 1:
            raise UsageError(f"--token {self.chosen.token!r} is {len(ids)} tokens for this run; "
                             "give one.")
        return int(ids[0])

    def vocabulary(self):
        """The text of every token."""
        return [self.tokenizer.decode([token]) for token in range(len(self.tokenizer))]

    def ids(self, most):
        """The ids of --text, two or more, of any length; of a held-out text, at most `most`."""
        if self.chosen.text is None:
            ids = self.task.held_out_ids(self._corpus, self.tokenizer, most)
            ids = self.reading().inputs[0][0] if ids is None else ids
        else:
            try:
                ids = np.asarray(self.tokenizer.prompt_ids(self.chosen.text))
            except ValueError as error:
                raise UsageError(f"--text: {error}") from None
        if len(ids) < 2:
            raise UsageError(f"--text has {len(ids)} tokens; give two or more: nothing predicts "
                             "the first.")
        return ids

    def validation(self, blocks):
        """Batches of `blocks` held-out examples."""
        return self.task.validation(self._corpus(), self.tokenizer, self.model.config, blocks)

    def metrics(self):
        """The lines of metrics.jsonl."""
        return RunFolder(self.folder).read_metrics()

    def path(self):
        """{step: parameters} of the snapshots; empty unless they lead to the model of the run."""
        if len(Snapshots(self.folder).files()) < FEWEST_STATES:
            return {}
        states = States(self.folder, most=MOST_STATES)
        path = {step: {name: parameter.data.copy() for name, parameter
                       in states.at(step).named_parameters()} for step in states.steps}
        last = path[states.steps[-1]]
        same = all(np.array_equal(last[name], parameter.data)
                   for name, parameter in self.model.named_parameters())
        return path if same else {}

    def _corpus(self):
        return run_corpus(self.task, self.facts, self.chosen.data)


def _numbered(flag, number, count):
    """An index from 0 of a number from 1."""
    if not 1 <= number <= count:
        raise UsageError(f"{flag} {number} must be 1 to {count}.")
    return number - 1
