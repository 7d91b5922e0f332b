"""The recurrent language model: all that it knows of the text so far is a vector, which every token changes."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_choice
from numformer.layers import GRU, LSTM, RNN, Identity
from numformer.models.language_model import LanguageModelConfig, StatefulLanguageModel

CELLS = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


@dataclass(frozen=True, kw_only=True)
class RecurrentLanguageModelConfig(LanguageModelConfig):
    """The switches of a `RecurrentLanguageModel`: those of `LanguageModelConfig`, and this one.

    Parameters
    ----------
    cell : "rnn", "lstm" or "gru"
        How a token changes the state.

    Raises
    ------
    ValueError
        If a number is out of range or a choice unknown.
    """

    cell: str = "lstm"
    init_std: float = 0.5                                             # the layers expect coordinates of about 1: less is a slow start

    def __post_init__(self):
        super().__post_init__()
        check_choice("RecurrentLanguageModelConfig", "cell", self.cell, CELLS)


class RecurrentLanguageModel(StatefulLanguageModel):
    r"""Predict every next token by recurrent layers, one above the other: see `StatefulLanguageModel`.

    .. math:: x^{\ell+1}_t = h^\ell_t = \mathrm{cell}(x^\ell_t, h^\ell_{t-1})

    A token can be felt as far as the state carries it: the gradient of a loss by a token k steps earlier is a product of k
    Jacobians, which vanishes or explodes in the plain network, and less so where gates decide what is kept.

    Parameters
    ----------
    config : RecurrentLanguageModelConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Mikolov et al. (2010), "Recurrent neural network based language model"; layers above each other, with dropout between them:
    Zaremba, Sutskever, Vinyals (2014), "Recurrent Neural Network Regularization", section 3. Vanishing gradients: Bengio, Simard,
    Frasconi (1994), "Learning Long-Term Dependencies with Gradient Descent is Difficult".

    Examples
    --------
    >>> config = RecurrentLanguageModelConfig(vocab_size=65, context_length=8, n_layers=2, d_model=16, cell="gru")
    >>> model = RecurrentLanguageModel(config, np.random.default_rng(0))
    >>> ids = np.array([[1, 2, 3, 4]])
    >>> model(ids).shape                                              # logits, (B, T, V)
    (1, 4, 65)
    >>> logits, states = model.step(ids)
    >>> [state.shape for state in states]                             # all that it keeps of the text
    [(1, 16), (1, 16)]
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        layers = [CELLS[c.cell](c.d_model, c.d_model, rng, dtype=dtype) for _ in range(c.n_layers)]
        super().__init__(config, rng, layers, norm=Identity())
