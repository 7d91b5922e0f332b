"""numformer draw: draw a model's architecture or a layer's computation, forward and backward.

    numformer draw run --out drawn.svg
"""

from pathlib import Path

import numpy as np

from numformer.commands import UsageError
from numformer.commands.count import PUBLISHED
from numformer.commands.diagrams.small_inputs import inputs_of
from numformer.commands.shared.output import (
    add_style_arguments, check_picture, print_json, save_picture, style_of)
from numformer.analysis import architecture, computation
from numformer.models import KINDS
from numformer.plots import architecture_diagram, poster
from numformer.plots.diagrams.computation import draw_computation
from numformer.plots.tokens import plain
from numformer.recipes import PRESETS
from numformer.runs import load_run
from numformer.terminal import did_you_mean, printable
from numformer.verify.registry import ESTIMATORS, LAYERS

FORMATS = (".svg", ".png")


def add_arguments(parser):
    parser.add_argument("name", metavar="NAME", help="a published model (as of count), a preset "
                        "(as of train), the class of a layer such as MultiHeadAttention, or the "
                        "folder of a run")
    parser.add_argument("--block", type=int, metavar="N", default=None, help="one block alone, "
                        "with the parts of its layers: 1 is the first that data pass")
    parser.add_argument("--layer", metavar="PATH", default=None, help="the computation of one "
                        "layer of a run, such as blocks.0.attention")
    parser.add_argument("--backward", action="store_true", help="draw the gradients, too, with "
                        "the equations of the backward")
    parser.add_argument("--poster", action="store_true", help="draw a sheet for the wall, A1: the "
                        "model, one block (--block, or its last) with all parts, and the equations "
                        "of its functions, forward and backward (default: NAME-poster.pdf)")
    add_style_arguments(parser)
    parser.add_argument("--out", metavar="FILE", default=None, help="a .png, .svg or .pdf file "
                        "(default: NAME.svg and NAME.png here, or in the run)")


@np.errstate(over="ignore", invalid="ignore")         # of parameters that are very large
def run(arguments):
    if arguments.out:
        check_picture("draw: --out", Path(arguments.out))
    with style_of(arguments):
        ax, stem, facts = _drawn(arguments)
        files = [Path(arguments.out)] if arguments.out else [
            stem.with_name(stem.name + ending)
            for ending in (("-poster.pdf",) if arguments.poster else FORMATS)]
        for path in files:
            save_picture(ax, path)
            print(f"wrote {printable(path)}")
    if arguments.json:
        print_json({"name": arguments.name, "files": list(map(str, files)), **facts})
    return 0


def _drawn(arguments):
    """(Axes, path without ending, facts for --json) of what the arguments name."""
    name, folder = arguments.name, Path(arguments.name)
    case = next((each for each in LAYERS + ESTIMATORS if type(each.layer()).__name__ == name),
                None) if name.isidentifier() and name[0].isupper() else None
    is_layer = case is not None and not folder.is_dir()
    if arguments.poster and (is_layer or arguments.layer is not None):
        raise UsageError("draw: --poster is of a model; give the name of one, a preset or the "
                         "folder of a run, without --layer.")
    if is_layer:
        if arguments.block is not None or arguments.layer is not None:
            raise UsageError(f"draw: {name} is a layer and has no --block and no --layer; leave "
                             "them out.")
        found = computation(case.layer(), *case.inputs(), backward=arguments.backward,
                            **case.options())
        return draw_computation(found, name), Path(name), _facts_of(found)
    is_run = (folder / "checkpoint.safetensors").exists()
    if arguments.layer is not None:
        if not is_run:
            raise UsageError(f"draw: --layer is for a run, but {name} is none; give the folder of "
                             "a run, or the class of the layer as NAME.")
        return _layer_of_a_run(arguments, folder)
    model, title = (load_run(folder)[0], plain(folder.resolve().name)) if is_run else (
        _config(name), name)
    try:
        found = architecture(model, arguments.block)
        ax = poster(model, title, arguments.block) if arguments.poster else architecture_diagram(
            model, title=title, backward=arguments.backward, block=arguments.block)
    except (ValueError, TypeError) as error:          # no such block, or no method describe_model
        raise UsageError(f"draw: {error}") from None
    stem = "architecture" if is_run else name
    stem += "" if arguments.block is None else f"-block-{arguments.block}"
    boxes = [{"name": box.name, "detail": box.detail, "shape": list(box.shape),
              "parameters": box.parameters, "page": box.page, "times": times}
             for box, times in found.boxes()]
    return ax, folder / stem if is_run else Path(stem), {"parameters": found.parameters,
                                                         "sizes": found.sizes, "boxes": boxes}


def _layer_of_a_run(arguments, folder):
    model, path = load_run(folder)[0], arguments.layer
    if arguments.block is not None:
        raise UsageError("draw: --block and --layer exclude each other; leave one out.")
    layers = dict(model.named_layers()) if hasattr(model, "named_layers") else {}
    if path not in layers or not path:
        raise UsageError(f"draw: {arguments.name} has no layer {path!r}{did_you_mean(path, layers)}"
                         "; the names are those of its parameters without the last part.")
    try:
        inputs, options = inputs_of(layers[path])
        found = computation(layers[path], *inputs, backward=arguments.backward, **options)
    except (ValueError, TypeError, AttributeError) as error:
        kind = type(layers[path]).__name__
        raise UsageError(f"draw: {path} cannot be run by itself ({error}); draw its class, {kind}, "
                         "instead.") from None
    title = f"{path}: {type(layers[path]).__name__}"
    return draw_computation(found, title), folder / path, _facts_of(found)


def _facts_of(found):
    return {"computations": [
        {"function": each.function, "page": each.page, "saved": each.saved,
         "steps": [step._asdict() for step in each.steps],
         "variables": [variable._asdict() for variable in each.variables]}
        for each in found if each is not None]}


def _config(name):
    """The config of a published model, or of a preset with the sizes that come with its data."""
    if name in PUBLISHED:
        return PUBLISHED[name]
    if name not in PRESETS:
        kinds = [type(each.layer()).__name__ for each in LAYERS + ESTIMATORS]
        raise UsageError(f"draw: {name} is neither a model, a preset, a layer nor a run"
                         f"{did_you_mean(name, [*PUBLISHED, *PRESETS, *kinds])}; choose one of "
                         "`numformer count --help` or `numformer train --help`, a class in "
                         "numformer.layers, or the folder of a run.")
    preset = PRESETS[name]
    task = preset.task.with_recipe(preset.task.recipe)
    options = dict(preset.model)
    missing = task.from_the_data - options.keys() - {"teacher_width"}
    if missing:
        options |= task.options(task.tokenizer(task.load(task.default_data)))
    return KINDS[preset.kind][1](**options)
