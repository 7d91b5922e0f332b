"""Pictures of what a trained model has learned, by kind, for `numformer plot`: embeddings, heads,
predictions, and the loss around its parameters."""

import unicodedata
from functools import partial

import numpy as np

from numformer import plots
from numformer.analysis import (
    attention_by_layer, attention_patterns, filter_normalized_direction, head_scores, loss_surface,
    path_directions, pattern_targets, token_losses)
from numformer.analysis.attention_views import Reading, attention_views
from numformer.analysis.predictions import check_language_model
from numformer.backend import one_blas_thread
from numformer.commands import UsageError
from numformer.commands.views.states import States
from numformer.data import recall_batch, recall_examples
from numformer.data.corpora.recall import EXAMPLE
from numformer.models import Decoder
from numformer.parameter import Layer
from numformer.plots.text.letters import signs
from numformer.plots.tokens import visible
from numformer.recipes import TextTask
from numformer.recipes.library.bert import MaskedTask
from numformer.recipes.library.library_task import LibraryTask
from numformer.recipes.text.recall import RecallTask, examples_in
from numformer.recipes.world.world_task import WorldTask
from numformer.runs import Snapshots
from numformer.runs.load_run import run_corpus
from numformer.training.evaluation import mean_loss

CLASSES = ("consonants", "vowels", "digits", "punctuation", "letters", "words",
           "parts of words")
MOST_POINTS = 110                                     # tokens on the map of embeddings
SHOWN_TOKENS = 420                                    # of a held-out text with losses
TOP_P, TOP_K = 0.9, 8
MOST_LETTERS = 40                                     # of a text in a title
SEQUENCES = 32                                        # that scores of heads are measured on
MAP_TOKENS = 16                                       # of the maps of heads
POINTS, REACH = 25, 1.0                               # of a loss surface: a side, and its half
BLOCKS = 8                                            # of validation data at every point
FEWEST_STATES, MOST_STATES = 3, 40                    # of a path


def embeddings(run):
    """Token embeddings in two dimensions, by the principal components."""
    table = getattr(getattr(run.model, "backbone", run.model), "embedding", None)
    table = getattr(table, "tokens", table)                           # of n-grams: those of tokens
    weight = getattr(table, "weight", None)
    if run.tokenizer is None or weight is None or len(weight.data) < len(run.tokenizer):
        raise UsageError(f"{run.folder}: {type(run.model).__name__} has no embedding of tokens.")
    ids = np.arange(len(run.tokenizer.special), len(run.tokenizer))
    texts = {k: run.tokenizer.decode([k]) for k in ids}
    if max(map(len, texts.values())) > 1 and len(ids) > MOST_POINTS:  # merged bytes first
        ids = sorted(ids, key=lambda k: len(texts[k].strip()) < 2)
    classes = {k: class_of(texts[k]) for k in ids}
    shown = sorted(ids[:MOST_POINTS], key=lambda k: CLASSES.index(classes[k]))
    return plots.embedding_map(weight.data[shown], [texts[k] for k in shown],
                               [classes[k] for k in shown],
                               title=f"Embeddings of {len(shown)} tokens")


def class_of(token):
    """The class of a token, one of `CLASSES`.

    Examples
    --------
    >>> [class_of(token) for token in ("a", "x", "7", "\\n", " the", "ing")]
    ['vowels', 'consonants', 'digits', 'punctuation', 'words', 'parts of words']
    """
    if len(token.strip()) > 1:
        return "words" if token[:1].isspace() else "parts of words"
    letter = unicodedata.normalize("NFD", token.strip().lower())[:1]
    if letter.isdigit():
        return "digits"
    if not letter.isalpha():
        return "punctuation"
    if "LATIN" not in unicodedata.name(letter, ""):
        return "letters"
    return "vowels" if letter in "aeiou" else "consonants"


def temperature(run):
    """The distribution of the next token at several temperatures, with top-k and top-p."""
    check_language_model("temperature", run.model)
    reading = run.reading()
    with one_blas_thread():
        logits = run.model(reading.inputs[0])[0, -1]
    vocabulary = [run.tokenizer.decode([token]) for token in range(len(run.tokenizer))]
    words, *earlier = [visible(token) for token in reading.read[:-25:-1]]
    for token in earlier:                             # as many as a title has space for
        if len(token) + len(words) > MOST_LETTERS:
            break
        words = token + words
    return plots.temperature_panels(logits, vocabulary, top_k=TOP_K, top_p=TOP_P,
                                    title=f"The next token after “{words}”")


def token_loss(run):
    """The cross-entropy of every token of a text (default: a held-out one), of any length."""
    check_language_model("token-loss", run.model)
    ids = _ids_of_text(run) if run.chosen.text is not None else _held_out_ids(run)
    if len(ids) < 2:
        raise UsageError(f"--text has {len(ids)} tokens; give two or more: nothing predicts the "
                         "first.")
    losses = token_losses(run.model, ids)
    return plots.tokens_by_loss([run.tokenizer.decode([token]) for token in ids], losses,
                                top=float(np.log(run.model.config.vocab_size)))


def induction(run):
    """Previous-token and induction heads of a decoder: scores of all heads, and maps."""
    if not isinstance(run.model, Decoder):
        raise UsageError(f"{run.folder}: {type(run.model).__name__} has no causal self-attention, "
                         "which induction heads need; give the run of a Decoder.")
    sequences, queries, ids = _repeating(run)
    scores, previous = head_scores(run.model, sequences, queries)
    texts = [run.tokenizer.decode([token]) for token in ids]
    (view,) = attention_views(run.model, Reading((ids[None],), texts))
    after = _after_copies(ids)
    if queries is not None:
        after &= queries[0, :len(ids), None]
    return plots.heads_by_pattern(
        {"previous token": previous, "induction": scores}, view.weights, texts,
        {"previous token": np.eye(len(ids), k=-1, dtype=bool), "induction": after}, view.masks[0],
        title="Previous-token and induction heads")


def patterns(run):
    """Heads of an encoder by pattern: previous, own and next token, [CLS], [SEP], all alike."""
    rows = (run.task.rows(run.tokenizer, run.model.config, held_out=True)
            if isinstance(run.task, MaskedTask) else None)
    if rows is not None and run.chosen.text is None:                  # the shortest held-out text
        n = int(rows.lengths.argmin())
        ids = rows.ids[n, :rows.lengths[n]]
        reading = Reading((ids[None],), [run.tokenizer.decode([token]) for token in ids])
        view = attention_views(run.model, reading)[0]
    else:
        reading, view = run.reading(), run.view(first=True)
    if not all(mask.all() for mask in view.masks):
        raise UsageError(f"{run.folder}: its tokens attend to earlier ones alone; patterns need an "
                         "encoder, such as that of a run of bert.")
    separators = _separators(run, reading.inputs[0][0])
    if rows is None:
        texts, counted = [(view.weights, separators)], "for this text"
    else:
        texts = _texts_with_weights(run, rows.take(np.arange(min(SEQUENCES, len(rows.ids)))))
        counted = f"mean of {len(texts)} held-out texts"
    names = {"first": signs(view.keys[0])} | {"separator": signs(view.keys[t]) for t in separators}
    scores, targets = ({names.get(name, name): value for name, value in found.items()}
                       for found in (attention_patterns(texts),
                                     pattern_targets(len(view.keys), separators)))
    return plots.heads_by_pattern(scores, view.weights, view.keys, targets,
                                  title=f"Attention by pattern, {counted}")


def landscape(run):
    """The loss around the trained parameters, and along the path of training (snapshots)."""
    if not isinstance(run.model, Layer):
        raise UsageError(f"{run.folder}: {type(run.model).__name__} has no parameters that a "
                         "gradient trains.")
    batches = run.task.validation(run_corpus(run.task, run.facts, run.chosen.data), run.tokenizer,
                                  run.model.config, BLOCKS)
    loss = partial(mean_loss, run.model, batches)
    steps = np.linspace(-REACH, REACH, POINTS)
    with one_blas_thread():
        directions = [filter_normalized_direction(run.model, np.random.default_rng([0, k]))
                      for k in range(2)]
        planes = [plots.Plane(loss_surface(run.model, directions, steps, steps, loss), steps, steps,
                              "random directions", ("first direction, filter-normalized",
                                                   "second direction, filter-normalized"))]
        path = _path(run)
        if path:
            directions, points, shares = path_directions([*path.values()])
            low, high = points.min(axis=0), points.max(axis=0)
            alphas, betas = np.linspace(low - 0.2 * (high - low), high + 0.2 * (high - low),
                                        POINTS).T
            planes.append(plots.Plane(
                loss_surface(run.model, directions, alphas, betas, loss), alphas, betas,
                "the plane of the path of training",
                tuple(f"{name} direction of the path, {share:.0%}"
                      for name, share in zip(("first", "second"), shares)), points, tuple(path)))
    return plots.loss_contours(planes, unit=run.task.unit_of(run.tokenizer))


def _path(run):
    """{step: parameters} of the snapshots; empty unless they lead to the model of the run."""
    if len(Snapshots(run.folder).files()) < FEWEST_STATES:
        return {}
    states = States(run.folder, most=MOST_STATES)
    path = {step: {name: parameter.data.copy() for name, parameter
                   in states.at(step).named_parameters()} for step in states.steps}
    last = path[states.steps[-1]]
    same = all(np.array_equal(last[name], parameter.data)
               for name, parameter in run.model.named_parameters())
    return path if same else {}


def _ids_of_text(run):
    """The ids of --text."""
    try:
        return np.asarray(run.tokenizer.encode(run.chosen.text))
    except ValueError as error:
        raise UsageError(f"--text: {error}") from None


def _held_out_ids(run):
    """The ids of the held-out text after its first paragraph; of other tasks, their own text."""
    if not isinstance(run.task, TextTask):
        return run.reading().inputs[0][0]
    text = run_corpus(run.task, run.facts, run.chosen.data).split()[1]
    start = text.find("\n\n", 0, len(text) // 2) + 2
    return np.asarray(run.tokenizer.encode(text[start if start > 1 else 0:])[:SHOWN_TOKENS])


def _repeating(run):
    """Sequences (N, T) whose tokens repeat, the queries (N, T) to measure at, and one to show."""
    if run.chosen.text is not None:
        ids = run.reading().inputs[0][0]
        return ids[None], None, ids
    rng = np.random.default_rng(0)
    if isinstance(run.task, RecallTask):
        N = examples_in(run.model.config.context_length)
        sequences, _ = recall_batch(*recall_examples(SEQUENCES, N, rng))
        queries = np.zeros(sequences.shape, bool)
        queries[:, ::EXAMPLE] = True                                  # at keys
        return sequences, queries, sequences[0, :MAP_TOKENS]
    half = max(1, run.model.config.context_length // 2)
    ids = rng.integers(len(run.tokenizer.special), len(run.tokenizer), (SEQUENCES, half))
    shown = ids[0, :MAP_TOKENS // 2]
    return np.tile(ids, 2), None, np.tile(shown, 2)


def _after_copies(ids):
    """True where key j + 1 follows an earlier copy j of the query's token: bool, (T, T)."""
    earlier = (ids[:, None] == ids) & np.tri(len(ids), k=-1, dtype=bool)
    after = np.zeros_like(earlier)
    after[:, 1:] = earlier[:, :-1]
    return after


def _separators(run, ids):
    """The positions of [SEP] in a row, or of what a tokenizer has in its place; not the first."""
    if not isinstance(run.task, (LibraryTask, WorldTask)):
        return []
    separator = run.task.layout(run.tokenizer)[2]
    return [int(t) for t in np.flatnonzero(ids == separator) if t]


def _texts_with_weights(run, rows):
    """[(weights of every layer, separators)] of rows, without padding."""
    layers = attention_by_layer(run.model, rows.ids, rows.segments, rows.lengths).values()
    return [([layer[b, :, :n, :n] for layer in layers], _separators(run, rows.ids[b, :n]))
            for b, n in enumerate(rows.lengths)]


# the options that a kind of picture takes
USES = {"embeddings": (), "temperature": ("text",), "token-loss": ("text", "data"),
        "induction": ("text",), "patterns": ("text", "view"), "landscape": ("data",)}
PICTURES = {function.__name__.replace("_", "-"): function for function in (
    embeddings, temperature, token_loss, induction, patterns, landscape)}
