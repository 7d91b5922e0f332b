"""The pictures of a run, by kind: what `numformer plot` can draw."""

from functools import partial
from typing import NamedTuple

import numpy as np

from numformer.backend import one_blas_thread
from numformer.commands import UsageError
from numformer.commands.runs import run_material
from numformer.functional.positions import alibi, alibi_slopes
from numformer.functional.relative_positions import add_by_distance
from numformer.models import (
    Decoder, VisionTransformer, account, dead_units, gradient_by_block, hidden_activations, logit_contributions, logit_lens,
    residual_stream)
from numformer.models.decoder_config import DecoderConfig
from numformer.plots.axes import panels
from numformer.plots.tokens import visible
from numformer.plots.views import attention_views
from numformer import plots
from numformer.tasks.digits import patch_positions
from numformer.training import RunFolder


class Run(NamedTuple):
    """A run, and what was asked of it.

    Parameters
    ----------
    folder : str
    model, tokenizer, facts, task
        As `load_run` returns them.
    chosen : Namespace
        ``text``, ``view``, ``layer``, ``head``, ``query``, ``token`` and ``data``, each None unless given; layers and heads counted from 1,
        queries from 0.
    """

    folder: str
    model: object
    tokenizer: object
    facts: dict
    task: object
    chosen: object

    def reading(self):
        """What the model reads."""
        try:
            with one_blas_thread():
                return self.task.reading(self.model, self.tokenizer, self.chosen.text)
        except ValueError as error:
            raise UsageError(f"--text: {error}" if self.chosen.text is not None else str(error)) from None

    def view(self, wanted=None, first=False):
        """The attention that was chosen with --view, or the wanted one, or the last there is, or the first."""
        views = {view.name: view for view in attention_views(self.model, self.reading())}
        name = self.chosen.view if self.chosen.view is not None else wanted or list(views)[0 if first else -1]
        if name not in views:
            raise UsageError(f"{self.folder} has no attention called {name!r}; choose from {', '.join(views)}.")
        return views[name]

    def layer(self, view):
        """The number of the layer that was chosen, or of the last, from 0."""
        return _numbered("--layer", self.chosen.layer, len(view.weights)) if self.chosen.layer is not None else len(view.weights) - 1

    def head(self, view):
        """The number of the head that was chosen, from 0; None for all."""
        return None if self.chosen.head is None else _numbered("--head", self.chosen.head, len(view.weights[0]))

    def weights(self, view):
        """The weights (T, S) of the layer and head that were chosen, and how they are called."""
        layer, head = self.layer(view), self.head(view)
        weights = view.weights[layer].mean(axis=0) if head is None else view.weights[layer][head]
        return weights, f"layer {layer + 1}, " + ("mean of its heads" if head is None else f"head {head + 1}")


def attention(run):
    """One map: the mean of a layer's heads, or one of them."""
    view = run.view()
    if view.name == "cross":
        return _aligned(run, view)
    weights, called = run.weights(view)
    return plots.attention_map(weights, view.keys, view.masks[run.layer(view)], title=f"Attention{_of(view)}, {called}")


def grid(run):
    """A small map for every head of every layer."""
    view = run.view()
    return plots.attention_grid(view.weights, list(view.masks), title=f"Attention of all heads ({view.name})")


def heads(run):
    """Entropy and mean distance of every head."""
    view = run.view()
    in_one_text = view.name != "cross" and not isinstance(run.model, VisionTransformer)
    return plots.head_statistics(view.weights, title=f"What heads do ({view.name})", distance=in_one_text)


def rollout(run):
    """What reaches what through all layers."""
    view = run.view(first=True)
    if view.name == "cross":
        raise UsageError(f"{run.folder}: attention from one text to another cannot be rolled out; choose another --view.")
    reach = plots.attention_rollout(view.weights)
    return plots.attention_map(reach, view.keys, reach > 0, title=f"Attention rollout{_of(view)}: what reaches what")


def query(run):
    """One query of one head in numbers: q, k, their products, scores, weights."""
    view = run.view()
    if view.q is None:
        raise UsageError(f"{run.folder}: its scores are no products of queries and keys.")
    layer, head = run.layer(view), run.head(view) or 0
    T = len(view.queries)
    place = T - 1 if run.chosen.query is None else run.chosen.query
    if not 0 <= place < T:
        raise UsageError(f"--query {place} must be one of the {T} places of the text, counted from 0.")
    bias = view.biases[layer]
    return plots.query_detail(view.q[layer][head, place], view.k[layer][head], view.keys, view.scales[layer],
                              None if bias is None else bias[head, place], view.masks[layer][place],
                              title=f"Query {place}, “{visible(view.queries[place])}”, of layer {layer + 1}, head {head + 1}")


def alignment(run):
    """Where a model looked in what it read for each piece that it wrote."""
    view = run.view("cross")
    if view.name != "cross":
        raise UsageError(f"{run.folder}: an alignment is that of --view cross.")
    return _aligned(run, view)


def patches(run):
    """Where a Vision Transformer looks in an image: each layer, and the rollout of all; --text is the number of the image."""
    if not isinstance(run.model, VisionTransformer):
        raise UsageError(f"{run.folder}: {type(run.model).__name__} sees no patches.")
    reading, view = run.reading(), run.view()
    first = int(run.model.config.pooling == "class")
    looks = [weights.mean(axis=0) for weights in view.weights] + [plots.attention_rollout(view.weights)]
    looked = np.array([look[0, 1:] if first else look.mean(axis=0) for look in looks])
    labels = [f"layer {number}" for number in range(1, len(looks))] + ["rollout"]
    return plots.patch_attention(np.repeat(reading.image[None], len(looks), axis=0), looked, labels, title="Attention to patches")


def positions(run):
    """How a model knows of positions: added vectors, a bias by distance, or rotations."""
    config, model = run.model.config, run.model
    trunk = getattr(model, "trunk", model)
    kind = getattr(config, "positions", "none")
    T = min(getattr(config, "context_length", 64), 64)
    if isinstance(model, VisionTransformer) and kind != "none":
        return plots.position_similarity(patch_positions(model))
    if kind in ("learned", "sinusoidal", "learned_rotary"):
        layer = trunk.input_positions if hasattr(trunk, "input_positions") else trunk.positions
        return plots.position_vectors(layer(np.zeros((1, T, config.d_model), config.dtype), start=0)[0], title=f"Positions: {kind}")
    nothing = np.zeros((1, config.n_heads, T, T)) if hasattr(config, "n_heads") else None
    if kind == "alibi":
        return plots.position_biases(alibi(nothing, alibi_slopes(config.n_heads))[0][0], title="ALiBi")
    if kind == "t5":
        relative = model.encoder.blocks[0].attention.relative
        bias = relative.lookup(T, T)[0].astype(np.float64)
        return plots.position_biases(add_by_distance(nothing, bias)[0][0], title="T5's bias by distance, of the encoder")
    if kind == "rotary":
        return plots.rotary_clocks(config.d_model // config.n_heads, base=config.rotary_base)
    raise UsageError(f"{run.folder}: {type(model).__name__} knows of no positions to draw.")


def loss(run):
    """Loss of every step and of the validations; bits on the right."""
    return plots.loss_curve(_metrics(run), unit=run.task.unit)


def training(run):
    """Loss, learning rate, length of the gradient, and size of the updates, in one picture."""
    metrics = _metrics(run)
    if not any("learning_rate" in line for line in metrics):
        raise UsageError(f"{run.folder} was trained without a gradient; `numformer plot loss` draws what there is.")
    axes = panels(None, 2, 2, (14, 9))
    drawn = [partial(plots.loss_curve, unit=run.task.unit), plots.gradient_norm_curve, plots.learning_rate_curve]
    if any("update_ratio" in line for line in metrics):
        drawn.append(plots.update_ratio_curve)
    else:
        axes[1, 1].remove()
    for panel, draw in zip(axes.flat, drawn):
        draw(metrics, ax=panel)
    return axes[0, 0].figure


def flow(run):
    """The length of every block's gradient, from the last batch of the validation."""
    batch = run.task.validation(run_material(run.task, run.facts, run.chosen.data), run.tokenizer, run.model.config, 8)[-1]
    with one_blas_thread():
        return plots.gradient_flow(gradient_by_block(run.model, batch), title="Gradient of each block")


def residual(run):
    """How long the vectors between the blocks are."""
    with one_blas_thread():
        return plots.residual_norms(residual_stream(run.model, *run.reading().inputs))


def activations(run):
    """What hidden units say, and which are never heard."""
    found = _activations(run)
    return plots.activation_histograms(found, {name: dead_units(x) for name, x in found.items()})


def dead(run):
    """The part of each feed-forward's units that are never heard."""
    return plots.dead_unit_bars({name: dead_units(x) for name, x in _activations(run).items()})


def lens(run):
    """What a decoder would say after each block."""
    reading, ids = _of_a_decoder(run)
    with one_blas_thread():
        return plots.lens_map(logit_lens(run.model, ids)[:, 0], _vocabulary(run), reading.read)


def contributions(run):
    """What each part of a decoder adds to the logit of a token: the likeliest after the text, or --token."""
    _, ids = _of_a_decoder(run)
    with one_blas_thread():
        token = int(run.model(ids)[0, -1].argmax()) if run.chosen.token is None else _token(run)
        parts = logit_contributions(run.model, ids, token)
    return plots.contribution_bars(parts, _vocabulary(run)[token])


def costs(run):
    """Parameters, operations, activations and cache by part, predicted and measured."""
    if not isinstance(run.model.config, DecoderConfig):
        raise UsageError(f"{run.folder}: the formulas by part are those of Decoder, not of {type(run.model).__name__}.")
    return plots.account_bars(account(run.model.config))


_MAPS = ("text", "view")
USES = {                                                              # of what can be chosen, the part that a kind of picture takes
    "attention": (*_MAPS, "layer", "head"), "grid": _MAPS, "heads": _MAPS, "rollout": _MAPS, "query": (*_MAPS, "layer", "head", "query"),
    "alignment": (*_MAPS, "layer", "head"), "patches": ("text",), "positions": (), "loss": (), "training": (), "flow": ("data",),
    "residual": ("text",), "activations": ("text",), "dead": ("text",), "lens": ("text",), "contributions": ("text", "token"), "costs": (),
}
PICTURES = {function.__name__: function for function in (
    attention, grid, heads, rollout, query, alignment, patches, positions, loss, training, flow, residual, activations, dead, lens,
    contributions, costs)}


def _of(view):
    """Whose attention it is, where a model has more than one."""
    return "" if view.name == "self" else f" of the {view.name}"


def _aligned(run, view):
    weights, called = run.weights(view)
    return plots.alignment_map(weights, view.keys, view.queries, title=f"Alignment, {called}")


def _numbered(flag, number, count):
    """A number from 1 as one from 0."""
    if not 1 <= number <= count:
        raise UsageError(f"{flag} {number} must be 1 to {count}.")
    return number - 1


def _metrics(run):
    return RunFolder(run.folder).read_metrics()


def _activations(run):
    with one_blas_thread():
        return hidden_activations(run.model, *run.reading().inputs)


def _of_a_decoder(run):
    """(what is read, its ids) of a model whose vectors between blocks its head can read."""
    if not isinstance(run.model, Decoder):
        raise UsageError(f"{run.folder}: {type(run.model).__name__} has no blocks with a norm and a head after them, as a Decoder has.")
    reading = run.reading()
    return reading, reading.inputs[0]


def _vocabulary(run):
    return [run.tokenizer.decode([token]) for token in range(len(run.tokenizer))]


def _token(run):
    ids = run.tokenizer.encode(run.chosen.token)
    if len(ids) != 1:
        raise UsageError(f"--token {run.chosen.token!r} is {len(ids)} tokens of this run; give one.")
    return int(ids[0])
