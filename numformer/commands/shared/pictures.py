"""The pictures of a run, by kind, for `numformer plot`."""

from functools import partial

import numpy as np

from numformer.backend import one_blas_thread
from numformer.commands import UsageError
from numformer.commands.shared import model_pictures
from numformer.analysis import (
    attention_rollout, dead_units, distinctive_heads, gradient_norm_by_block, hidden_activations,
    logit_contributions, logit_lens, model_costs, residual_stream)
from numformer.finite import predicted_classes
from numformer.models import Decoder, VisionTransformer
from numformer.models.decoder.config import DecoderConfig
from numformer.plots.axes import in_slides, panels
from numformer.plots.tokens import visible
from numformer import plots
from numformer.recipes.vision.vit import patch_positions
from numformer.runs import RunFolder
from numformer.runs.load_run import run_corpus

MOST_POSITIONS = 512                                  # of the vectors that are drawn


def attention(run):
    """Attention weights of the four heads that differ most, in all layers or one; or one head."""
    view = run.view()
    if view.name == "cross":
        return _aligned(run, view)
    if run.chosen.head is None:
        first, layers = 0, view.weights
        if run.chosen.layer is not None:
            first, layers = run.layer(view), [view.weights[run.layer(view)]]
        found = [(first + layer, head) for layer, head in distinctive_heads(layers)]
        return plots.attention_heads(view.weights, found, view.keys, list(view.masks),
                                     title=f"The heads that differ most{_of(view)}")
    weights, name = run.weights(view)
    return plots.attention_map(weights, view.keys, view.masks[run.layer(view)],
                               title=f"Attention{_of(view)}, {name}")


def grid(run):
    """Attention weights of every head of every layer."""
    view = run.view()
    return plots.attention_grid(view.weights, list(view.masks),
                                title=f"Attention of all heads ({view.name})")


def heads(run):
    """Entropy and mean distance of every head."""
    view = run.view()
    in_one_text = view.name != "cross" and not isinstance(run.model, VisionTransformer)
    return plots.head_statistics(view.weights, title=f"Attention heads ({view.name})",
                                 distance=in_one_text)


def rollout(run):
    """Attention rollout through all layers."""
    view = run.view(first=True)
    if view.name == "cross":
        raise UsageError(f"{run.folder}: rollout needs self-attention, not cross-attention; choose "
                         "another --view.")
    reach = attention_rollout(view.weights)
    return plots.attention_map(reach, view.keys, reach > 0, title=f"Attention rollout{_of(view)}")


def query(run):
    """One query of one head in numbers: q, k, their products, scores, weights, mixed values."""
    view = run.view()
    if view.q is None:
        raise UsageError(f"{run.folder}: its scores are not products of queries and keys.")
    layer, head = run.layer(view), run.head(view) or 0
    T = len(view.queries)
    t = T - 1 if run.chosen.query is None else run.chosen.query
    if not 0 <= t < T:
        raise UsageError(f"--query {t} must be one of the {T} positions of the text, counted from "
                         "0.")
    bias = view.biases[layer]
    return plots.query_detail(view.q[layer][head, t], view.k[layer][head], view.keys,
                              view.scales[layer], None if bias is None else bias[head, t],
                              view.masks[layer][t], title=f"Query {t}, "
                              f"“{visible(view.queries[t])}”, layer {layer + 1}, head {head + 1}",
                              v=view.v[layer][head])


def alignment(run):
    """Cross-attention of each target token to the source tokens."""
    view = run.view("cross")
    if view.name != "cross":
        raise UsageError(f"{run.folder}: alignment needs --view cross; leave --view out.")
    return _aligned(run, view)


def patches(run):
    """Attention to the patches of an image (--text): each layer of a ViT, and rollout."""
    if not isinstance(run.model, VisionTransformer):
        raise UsageError(f"{run.folder}: {type(run.model).__name__} has no patches; give the run "
                         "of a Vision Transformer.")
    reading, view = run.reading(), run.view()
    first = run.model.config.first_patch
    layers = [weights.mean(axis=0) for weights in view.weights] + [attention_rollout(view.weights)]
    weights = np.array([p[0, first:] if first else p.mean(axis=0) for p in layers])
    labels = [f"layer {number}" for number in range(1, len(layers))] + ["rollout"]
    grey = reading.image.mean(axis=2, keepdims=True)
    return plots.patch_attention(np.repeat(grey[None], len(layers), axis=0), weights, labels,
                                 title="Attention to patches")


def positions(run):
    """Position vectors, position biases, or rotations."""
    config, model = run.model.config, run.model
    backbone = getattr(model, "backbone", model)
    kind = getattr(config, "positions", "none").removeprefix("concatenated_")
    T = min(getattr(config, "context_length", 64), 64 if kind != "learned" else MOST_POSITIONS)
    has_input_positions = hasattr(backbone, "input_positions")
    layer = getattr(backbone, "input_positions" if has_input_positions else "positions", None)
    layer = getattr(layer, "positions", layer)                        # of concatenated ones
    vectors = kind.removesuffix("_2d") in ("learned", "sinusoidal")
    if vectors and isinstance(model, VisionTransformer):
        return plots.position_similarity(patch_positions(model))
    if vectors:
        found = layer(np.zeros((1, T, config.d_model), config.dtype), start=0)[0]
        draw = plots.learned_positions if kind == "learned" else plots.position_vectors
        return draw(found, title=f"Positions: {kind}")
    if kind in ("alibi", "t5"):
        encoder = getattr(backbone, "encoder", backbone)
        bias = encoder.blocks[0].attention.positions.added_to_scores(T, T)
        title = "ALiBi" if kind == "alibi" else "T5's position bias of the encoder"
        return plots.position_biases(bias, title=title)
    if kind == "rotary":
        return plots.rotary_clocks(config.d_rotary or config.head_width, base=config.rotary_base)
    raise UsageError(f"{run.folder}: {type(model).__name__} has no positions to draw.")


def loss(run):
    """Training and validation loss."""
    return plots.loss_curve(_metrics(run), unit=run.task.unit_of(run.tokenizer))


def training(run):
    """Loss, learning rate, gradient norm and update-to-weight ratio."""
    metrics = _metrics(run)
    if not any("loss" in line or "val_loss" in line for line in metrics):
        raise UsageError(f"{run.folder} has no steps of training to draw; train at least one.")
    if not any("learning_rate" in line for line in metrics):
        raise UsageError(f"{run.folder} was trained without gradients; use `numformer plot loss`.")
    axes = panels(None, *((2, 2) if in_slides() else (4, 1)), (8, 16))
    losses = partial(plots.loss_curve, unit=run.task.unit_of(run.tokenizer))
    curves = [losses, plots.gradient_norm_curve, plots.learning_rate_curve]
    if any("update_ratio" in line for line in metrics):
        curves.append(plots.update_ratio_curve)
    else:
        axes.flat[3].remove()
    for panel, draw in zip(axes.flat, curves):
        draw(metrics, ax=panel)
    return axes[0, 0].figure


def flow(run):
    """Gradient norm of each block, on the last validation batch."""
    batch = run.task.validation(run_corpus(run.task, run.facts, run.chosen.data), run.tokenizer,
                                run.model.config, 8)[-1]
    with one_blas_thread():
        return plots.gradient_flow(gradient_norm_by_block(run.model, batch),
                                   title="Gradient norm by block")


def residual(run):
    """Norms of the residual stream between the blocks."""
    with one_blas_thread():
        return plots.residual_norms(residual_stream(run.model, *run.reading().inputs))


def activations(run):
    """Histograms of the activations of hidden units, with the fraction of dead ones."""
    found = _activations(run)
    return plots.activation_histograms(found, {name: dead_units(x) for name, x in found.items()})


def dead(run):
    """Fraction of dead hidden units in each feed-forward."""
    return plots.dead_unit_bars({name: dead_units(x) for name, x in _activations(run).items()})


def lens(run):
    """Logit lens: the prediction of a decoder after each block."""
    reading, ids = _of_a_decoder(run)
    with one_blas_thread():
        return plots.lens_map(logit_lens(run.model, ids)[:, 0], _vocabulary(run), reading.read)


def contributions(run):
    """Contributions of components to the logit of the most likely token, or of --token."""
    _, ids = _of_a_decoder(run)
    with one_blas_thread():
        logits = run.model(ids)[0, -1]
        token = (int(predicted_classes("contributions", logits, run.model))
                 if run.chosen.token is None else _token(run))
        parts = logit_contributions(run.model, ids, token)
    return plots.contribution_bars(parts, _vocabulary(run)[token])


def costs(run):
    """Parameters, FLOPs, activations and KV cache by part, predicted and measured."""
    if not isinstance(run.model.config, DecoderConfig):
        raise UsageError(f"{run.folder}: costs by part are known for a Decoder, not for "
                         f"{type(run.model).__name__}.")
    return plots.cost_treemap(model_costs(run.model.config))


_MAPS = ("text", "view")
# the options that a kind of picture takes
USES = {
    "attention": (*_MAPS, "layer", "head"), "grid": _MAPS, "heads": _MAPS, "rollout": _MAPS,
    "query": (*_MAPS, "layer", "head", "query"),
    "alignment": (*_MAPS, "layer", "head"), "patches": ("text",), "positions": (), "loss": (),
    "training": (), "flow": ("data",),
    "residual": ("text",), "activations": ("text",), "dead": ("text",), "lens": ("text",),
    "contributions": ("text", "token"), "costs": (), **model_pictures.USES,
}
PICTURES = {function.__name__: function for function in (
    attention, grid, heads, rollout, query, alignment, patches, positions, loss, training, flow,
    residual, activations, dead, lens, contributions, costs)} | model_pictures.PICTURES


def _of(view):
    """The name of the view, if a model has more than one."""
    return "" if view.name == "self" else f" of the {view.name}"


def _aligned(run, view):
    weights, name = run.weights(view)
    return plots.alignment_map(weights, view.keys, view.queries, title=f"Alignment, {name}")


def _metrics(run):
    return RunFolder(run.folder).read_metrics()


def _activations(run):
    with one_blas_thread():
        return hidden_activations(run.model, *run.reading().inputs)


def _of_a_decoder(run):
    """(reading, ids) of a model whose head can be applied after every block."""
    if not isinstance(run.model, Decoder):
        raise UsageError(f"{run.folder}: {type(run.model).__name__} has no final norm and LM head "
                         "after its blocks, as a Decoder has.")
    reading = run.reading()
    return reading, reading.inputs[0]


def _vocabulary(run):
    return [run.tokenizer.decode([token]) for token in range(len(run.tokenizer))]


def _token(run):
    ids = run.tokenizer.encode(run.chosen.token)
    if len(ids) != 1:
        raise UsageError(f"--token {run.chosen.token!r} is {len(ids)} tokens for this run; give "
                         "one.")
    return int(ids[0])
