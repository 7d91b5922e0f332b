"""Reading a run back: its model, tokenizer and text."""

from pathlib import Path

import numpy as np

from numformer.commands import UsageError
from numformer.datasets import DOCUMENTATION, TINY_SHAKESPEARE, load_corpus
from numformer.models import Decoder, DecoderConfig
from numformer.tokenizers import tokenizer_from_json
from numformer.training import CheckpointError, load_checkpoint


def add_run_arguments(parser):
    """RUN and which of its checkpoints."""
    parser.add_argument("run", metavar="RUN", help="folder of a run")
    parser.add_argument("--best", action="store_true", help="the checkpoint of the lowest validation loss, instead of the last")


def read_facts(facts, path):
    """(DecoderConfig, tokenizer, other facts) of a checkpoint.

    Raises
    ------
    CheckpointError
        If the file holds another kind of model, or settings that this version does not know.
    """
    try:
        if facts["model"]["kind"] != "Decoder":
            raise ValueError(f"its model is a {facts['model']['kind']}")
        return DecoderConfig.from_dict(facts["model"]["config"]), tokenizer_from_json(facts["tokenizer"]), facts
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not describe a run of this version: {error}") from None


def load_run(folder, best=False):
    """The model of a run, as it was last saved.

    Parameters
    ----------
    folder : path
    best : bool
        The checkpoint of the lowest validation loss, instead of the last.

    Returns
    -------
    model : Decoder
    tokenizer : CharacterTokenizer
    facts : dict
        The rest of the checkpoint's facts.

    Raises
    ------
    UsageError
        If there is no run in that folder.
    CheckpointError
        If its checkpoint is broken.
    """
    path = Path(folder) / ("best.safetensors" if best else "checkpoint.safetensors")
    if not path.is_file():
        raise UsageError(f"there is no {path}; give the folder of a run, such as `numformer train` made.")
    arrays, facts = load_checkpoint(path)
    config, tokenizer, facts = read_facts(facts, path)
    model = Decoder(config, np.random.default_rng(0))
    try:
        model.load_state_dict({name.removeprefix("model."): array for name, array in arrays.items() if name.startswith("model.")})
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path} holds a model of another shape than its config says. {error}") from None
    return model, tokenizer, facts


def corpus_argument(data):
    """How a checkpoint remembers `--data`: by name, or by absolute path."""
    return data if data in (DOCUMENTATION, TINY_SHAKESPEARE) and not Path(data).exists() else str(Path(data).resolve())


def validation_ids(tokenizer, facts, data=None):
    """The ids of the last tenth of the run's text, or of another text."""
    corpus = load_corpus(data or facts["data"]["argument"])
    return tokenizer.encode(corpus.split()[1])
