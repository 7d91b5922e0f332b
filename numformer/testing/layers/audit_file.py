"""The audit of a file of somebody's own: every layer in it against the complex step."""

import copy
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path

import numpy as np

from numformer.parameter import Layer
from numformer.testing.layers.audited_layer import AuditedLayer, without_gradient
from numformer.testing.layers.numpy_layer import parts_of, slots_of
from numformer.testing.layers.running import is_float
from numformer.verify.adapters import as_layer, positional_names
from numformer.verify.audit import checked, row_of
from numformer.verify.tensors import resolved

OWNER = "audit"
EXAMPLE = 'audit = {"NAME": (NAME(...), [x])}'
SHAPES = ((2, 3, None), (2, None), (2, 3, 4, None), (None,))


def audit_file(path, progress=None, left_out=None):
    """Check the gradients of all layers of a Python file.

    A layer is an object with `forward` and `backward`: ``y, saved = layer.forward(x)`` and
    ``layer.backward(dy, saved)``, or ``y = layer.forward(x)`` and ``layer.backward(dy)`` where it
    keeps what it needs on itself. Its parameters are as in `assert_layer_matches`.

    Which ones are checked, and on which inputs, the file says by a name `audit`: a dict, or a
    function that returns one, of examples by name: a layer, or a pair (f, f_backward); the list of
    its inputs; and optionally the keyword arguments of its forward, with ``"complex_safe": False``
    for one that shall be compared with central differences. In a file without it, every class with
    both methods is checked, on random inputs whose last axis fits its parameters; it must be built
    without arguments.

    Parameters
    ----------
    path : path
    progress : callable, optional
        Called with each row when it is ready.
    left_out : callable, optional
        Called with a list of the names of classes that have both methods and are in no example.

    Returns
    -------
    list of dict
        As of `numformer.verify.audit`, and `remarks`: a list of str.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is no Python, or raises an exception; if there are no layers in it; if a class needs
        arguments, or an example is not as above.
    """
    module = _module(Path(path))
    rows, examples = [], _examples(module, Path(path).name)
    missing = _without_example(module, [layer for _, layer, _, _ in examples])
    if left_out and missing:
        left_out(missing)
    for name, layer, inputs, options in examples:
        row = row_of(name, "own", lambda: _checked(layer, inputs, options))
        row.setdefault("remarks", [])
        rows.append(row)
        if progress:
            progress(row)
    return rows


def _checked(layer, inputs, options):
    if inputs is None:
        inputs = _inputs_for(layer)
    complex_safe, options = _complex_safe(layer, options)
    own = hasattr(layer, "forward") and not hasattr(layer, "named_parameters")
    subject = AuditedLayer(layer, inputs, options) if own else as_layer(layer)
    inputs, single = _in_float64(inputs)
    row = checked(subject, inputs, options, complex_safe=complex_safe)
    if not own:
        return row
    single += subject.single
    changed = subject.remembers(inputs, options)
    if changed:
        row["findings"].append(f"it keeps state between calls: a second call with the same inputs "
                               f"gives another {changed.replace('the gradient', 'gradient')}")
        row["ok"] = False
    row["remarks"] += [
        "it keeps what its backward needs on itself, so each forward can have one backward"
        ] * subject.keeps
    row["remarks"] += [f"{', '.join(single)} came in float32 and were checked in float64"] * bool(
        single)
    if not row["ok"] and not row["findings"] and _computes_in_float32(subject, inputs, options):
        row["findings"].append("it computes in float32 though float64 came in, whose rounding "
                               "hides errors: keep the dtype that comes in")

    def run(other):
        y = other.forward(*inputs, **(options or {}))
        return y[0] if isinstance(y, tuple) else y
    missing = without_gradient(layer, {name for name, _ in subject.named_parameters()}, run)
    row["remarks"] += [f"y depends on {', '.join(missing)}, of which there is no gradient (of w it "
                       "is dw, or grads[\"w\"])"] if missing else []
    return row


def _computes_in_float32(layer, inputs, options):
    """Whether y has the digits of float32 alone."""
    y = layer.forward(*inputs, **resolved(options))[0]
    return np.size(y) > 1 and np.array_equal(y, np.float32(y), equal_nan=True)


def _complex_safe(layer, options):
    """(whether it can take complex numbers, None where nobody says; the options without that)."""
    function = layer.forward if hasattr(layer, "forward") else layer[0]
    if not options or "complex_safe" not in options or "complex_safe" in positional_names(
            function, keywords=True):
        return None, options
    return options["complex_safe"], {name: value for name, value in options.items()
                                     if name != "complex_safe"}


def _in_float64(inputs):
    """(the inputs, of which those in single or half precision are float64; their names)."""
    single = [f"input {k}" for k, x in enumerate(inputs)
              if is_float(x) and x.dtype != np.float64]
    return [x.astype(np.float64) if is_float(x) else x for x in inputs], single


def _module(path):
    """The module of a file, which is run."""
    source = path.read_text(encoding="utf-8")
    name = f"audited_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))    # what it imports may lie next to it
    sys.modules[name] = module
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise ValueError(f"{path.name} is no Python: {error.msg} in line {error.lineno}.") from None
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == str(path)]
        where = f" in line {lines[-1]}" if lines else ""
        raise ValueError(f"{path.name} raised {type(error).__name__}{where}: {error}") from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _examples(module, file):
    """(name, layer, inputs or None, options) of what is to be checked."""
    given = vars(module).get("audit")
    if given is None or callable(given) and given.__module__ != module.__name__:
        return _found(module, file)                   # one that is imported is another thing
    try:
        given = given() if callable(given) else given
    except Exception as error:
        raise ValueError(f"{file}: its audit raised {type(error).__name__}: {error}") from None
    if not isinstance(given, dict) or not given:
        raise ValueError(f"{file}: audit must be a dict of examples, or a function that returns "
                         f"one, as {EXAMPLE}, but is {type(given).__name__}.")
    found = []
    for name, example in given.items():
        layer, inputs, *options = example if isinstance(example, (tuple, list)) and len(
            example) in (2, 3) else (None, None)
        options = options[0] if options else None
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, (list, tuple)) or not isinstance(options, (dict, type(None))):
            raise ValueError(f"{file}: the example {name!r} of audit must be (layer, inputs), or "
                             f"(layer, inputs, options), as {EXAMPLE}.")
        try:
            as_layer(layer)
        except TypeError as error:
            raise ValueError(f"{file}: the example {name!r}: {error}") from None
        found.append((str(name), layer, list(inputs), options))
    return found


def _classes(module):
    """The classes of a file that have both methods."""
    return [kind for name, kind in vars(module).items() if isinstance(kind, type)
            and kind.__module__ == module.__name__ and not name.startswith("_")
            and all(callable(getattr(kind, each, None)) for each in ("forward", "backward"))]


def _without_example(module, layers):
    """The names of classes of a file that are neither an example nor a part or base of one."""
    checked_too = [part for layer in layers if hasattr(layer, "forward")
                   for part in (layer, *(part for _, part in parts_of(layer)))]
    known = {type(part) for part in checked_too}
    return [kind.__name__ for kind in _classes(module) if kind not in known and not (
        any(issubclass(other, kind) for other in known) and not _runs(kind))]


def _found(module, file):
    """The classes of a file without examples."""
    classes = _classes(module)
    if not classes:
        raise ValueError(f"{file} has no layers: no class with forward and backward, and no "
                         f"{EXAMPLE}.")
    found = []
    for kind in classes:
        is_base = any(other is not kind and issubclass(other, kind) for other in classes)
        if is_base and not _runs(kind):
            continue
        needed = [p.name for p in inspect.signature(kind).parameters.values()
                  if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.KEYWORD_ONLY,
                                                         p.POSITIONAL_OR_KEYWORD)]
        if needed:
            raise ValueError(
                f"{file}: {kind.__name__} needs {', '.join(needed)}; add an example to the file: "
                f"{EXAMPLE.replace('NAME', kind.__name__)}, with all that is to be checked.")
        try:
            layer = kind()
        except Exception as error:
            raise ValueError(f"{file}: {kind.__name__}() raised {type(error).__name__}: {error}"
                             ) from None
        found.append((kind.__name__, layer, None, None))
    return found


def _runs(kind):
    """Whether a class is a layer by itself, and not just the base of others."""
    try:
        _inputs_for(kind())
    except Exception:
        return False
    return True


def _inputs_for(layer):
    """Random inputs that its forward takes: the last axis is one of its parameters'.

    Raises
    ------
    TypeError
        If it takes none.
    """
    names, raised = positional_names(layer.forward), None
    arrays = ([p.data for _, p in layer.named_parameters()] if isinstance(layer, Layer)
              else [slot.data for _, slot in slots_of(layer)])
    sizes = list(dict.fromkeys(size for x in arrays for size in x.shape)) or [4]
    for shape in SHAPES:
        for size in sizes:
            rng = np.random.default_rng(0)
            inputs = [rng.standard_normal(tuple(n or size for n in shape))
                      for _ in names or ["x"]]
            try:
                copy.deepcopy(layer).forward(*(x.copy() for x in inputs))
                return inputs
            except Exception as error:
                raised = raised or error
    raise TypeError(f"its forward takes no random inputs of the usual shapes ({raised}); give an "
                    f"example: {EXAMPLE}")
