"""The numbers of a film: what every state of a training writes, attends to and embeds."""

import numpy as np

from numformer.analysis.attention_views import attention_views
from numformer.analysis.token_classes import class_of
from numformer.backend import one_blas_thread
from numformer.commands import UsageError
from numformer.commands.shared.selection import Run
from numformer.data import CharacterTokenizer
from numformer.generation import generate
from numformer.layers import MultiHeadAttention
from numformer.plots.meaning.maps import two_directions
from numformer.plots.training.film import Film
from numformer.recipes import PairTask, TextTask, first_prompt
from numformer.terminal import printable

TOKENS = 360                                          # of a sample
DEFAULT_TOKENS = 16                                   # of the text without --text
MOST_POINTS = 48                                      # of the map of embeddings
MARKS = " \n.,:;()'\"-_="
TEMPERATURE = 0.8


def has_film(task, model):
    """Whether a film can show a training: of what a model writes, and of its embeddings."""
    return isinstance(task, (TextTask, PairTask)) and hasattr(model, "embedding")


def film_of(states, chosen, metrics):
    """The film of the states of a run.

    Parameters
    ----------
    states : States
    chosen : Namespace
        ``run``, ``text``, ``layer``, ``head``, and ``seed`` of the samples. Layers and heads count
        from 1; by default the head is the one whose weights change most from the first state to
        the last. For every state the samples take the same uniform numbers, one for each token,
        so that what changes is due to the weights.
    metrics : list of dict
        Of the run.

    Returns
    -------
    Film

    Raises
    ------
    UsageError
        If the task has no text to write, the text does not fit, or there is no such head.
    """
    task, tokenizer, steps = states.task, states.tokenizer, states.steps
    if not has_film(task, states.model):
        raise UsageError(f"replay: {chosen.run} is a {type(states.model).__name__} of the task "
                         f"{task.name}; supported are language models and encoder-decoders.")
    # the loss of a step is that before it
    losses = [(line["step"] - 1, line["loss"]) for line in metrics if "loss" in line]
    if not losses:
        raise UsageError(f"replay: {chosen.run} has no metrics of its steps; train at least one.")
    model = states.at(steps[-1])
    text = _text(task, model, tokenizer, chosen.text)
    run = Run(chosen.run, model, tokenizer, states.facts, task, chosen)
    reading = run.reading() if chosen.text is not None else task.reading(model, tokenizer, text)
    tokens = _shown_tokens(tokenizer)
    centre, directions = two_directions(model.embedding.weight.data[tokens].astype(np.float64))
    attends = _has_attention(model)
    if not attends and (chosen.layer, chosen.head) != (None, None):
        raise UsageError(f"replay: {chosen.run} has no attention; leave --layer and --head out.")
    head = view = None
    if attends:
        view = attention_views(model, reading)[-1]
        last = np.stack(view.weights)                                 # (L, H, T, S)
        first = np.stack(attention_views(states.at(steps[0]), reading)[-1].weights)
        head = _head(run, view, np.abs(last - first).sum(axis=(2, 3)))
    samples, maps, points = [], [], []
    for step in steps:
        model = states.at(step)
        samples.append(_sample(task, model, tokenizer, text, chosen.seed))
        vectors = model.embedding.weight.data[tokens].astype(np.float64)
        points.append((vectors - centre) @ directions.T)
        if attends:
            maps.append(attention_views(model, reading)[-1].weights[head[0]][head[1]])
    return Film(
        _title(model), task.unit_of(tokenizer), steps, losses,
        [(line["step"], line["val_loss"]) for line in metrics if "val_loss" in line],
        text if isinstance(task, TextTask) else f"{text}\n", samples,
        np.stack(maps) if attends else None, view.masks[head[0]] if attends else None,
        view.queries if attends else [], view.keys if attends else [],
        f"layer {head[0] + 1}, head {head[1] + 1}" if attends else "",
        np.stack(points), *_labels(tokenizer, tokens))


def _text(task, model, tokenizer, text):
    """The text that is read, and continued or answered."""
    if text == "":
        raise UsageError("--text is empty; give at least one token, or leave it out.")
    if text is not None:
        return text
    if isinstance(task, PairTask):
        return task.shown()
    prompt = tokenizer.prompt_ids(first_prompt(tokenizer))
    most = min(DEFAULT_TOKENS, model.config.context_length)
    ids = list(generate(model, prompt, most, temperature=0))
    return tokenizer.decode(ids)


def _sample(task, model, tokenizer, text, seed):
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        if isinstance(task, PairTask):
            return task.answer(model, tokenizer, text)[0]
        rng = np.random.default_rng(seed)
        return tokenizer.decode(list(generate(model, tokenizer.prompt_ids(text), TOKENS,
                                              rng, TEMPERATURE)))


def _has_attention(model):
    """Whether `attention_views` finds attention: not in an RNN or a CNN."""
    return getattr(model.config, "attention", None) != "none" and (
        hasattr(model, "cross_attend") or hasattr(model, "attention") or any(
            isinstance(layer, MultiHeadAttention) for _, layer in model.named_layers()))


def _head(run, view, changes):
    """(layer, head), counted from 0: as chosen, or where the weights changed most."""
    allowed = np.ones(changes.shape, bool)
    if run.chosen.layer is not None:
        allowed[np.arange(len(allowed)) != run.layer(view)] = False
    if run.chosen.head is not None:
        allowed[:, np.arange(allowed.shape[1]) != run.head(view)] = False
    return np.unravel_index(np.argmax(np.where(allowed, changes, -1)), changes.shape)


def _shown_tokens(tokenizer):
    """Ids of the tokens on the map: letters, digits and marks, or else the first tokens."""
    n, special = len(tokenizer), len(tokenizer.special)
    ids = np.arange(special, n)
    if isinstance(tokenizer, CharacterTokenizer):
        texts = [tokenizer.decode([k]) for k in ids]
        common = [k for k, text in zip(ids, texts)
                  if text in MARKS or text.isdigit() or text.isalpha() and text == text.lower()]
        return np.array((common or ids.tolist())[:MOST_POINTS])
    # the first merges are of the most frequent pairs; before them come single bytes
    merged = [k for k in ids if len(tokenizer.decode([k]).strip()) > 1]
    return np.array((merged or ids.tolist())[:MOST_POINTS])


def _labels(tokenizer, ids):
    """(tokens, classes) of ids."""
    tokens = [tokenizer.decode([k]) for k in ids]
    return tokens, [class_of(token) for token in tokens]


def _title(model):
    name = printable(type(model).__name__)
    kind = {"Decoder": "A Transformer", "EncoderDecoder": "A Transformer",
            "NGramDecoder": "A Transformer", "RecurrentLanguageModel": "A recurrent network",
            "ConvolutionLanguageModel": "A convolutional network", "Seq2Seq": "An RNN"}
    return f"{kind.get(name, name)} learns to write"
