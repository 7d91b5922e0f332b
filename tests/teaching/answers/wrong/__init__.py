"""Wrong answers, a page for each family."""

from answers.wrong import (                                           # noqa: F401: they register
    wrong_activations, wrong_gates, wrong_softmax)
