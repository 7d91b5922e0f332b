"""Folders of published models in and out: config.json, weights, and a tokenizer."""

import json
import warnings
from math import prod
from pathlib import Path
from reprlib import repr as brief

import numpy as np

from numformer.analysis.counting import model_of_shapes
from numformer.backend import run_side_by_side
from numformer.files import undone_after_errors, write_atomically
from numformer.files.tensors import widened, write_tensors
from numformer.functional.quantization import from_bfloat16, to_bfloat16
from numformer.interop.config_file import CONFIG, family_of_folder, read_config
from numformer.interop.families import FAMILIES
from numformer.interop.published_files import merged_config, write_published
from numformer.interop.sentence_folder import MODULES, read_modules, write_modules
from numformer.interop.tensors import FLOATS, WEIGHTS, tensors_of
from numformer.parameter import some_of
from numformer.weights.keys import IGNORED, Ignored

STRIP, BLOCK = 64, 2**17                              # columns; numbers
SPARE = 2**20                                         # numbers that a folder may leave out


def load(folder, dtype=None, tokenizer=True, note=warnings.warn):
    """A published model from its folder, as its model of ours; nothing is downloaded.

    Tensors are mapped from the file and copied into the parameters one after the other, so that
    hardly more memory is needed than the parameters take.

    Parameters
    ----------
    folder : path
        With config.json and model.safetensors, or several files of weights and their index.
    dtype : "float32" or "float64", optional
        Of the model; unless given, float64 for weights in float64, and else float32, to which
        float16 and bfloat16 are widened.
    tokenizer : bool
        Whether to read the tokenizer, too; a folder whose tokenizer is not known is refused.
    note : callable
        It gets a line with the names of keys of config.json that nothing reads, if there are any;
        a warning unless given.

    Returns
    -------
    model : Layer
    tokenizer : Tokenizer or None
        None if the folder has none, or without `tokenizer`.

    Raises
    ------
    ValueError
        If a file is missing or malformed, a key of config.json changes the mathematics to what the
        model cannot compute, or names or shapes of tensors do not fit. Then nothing is built.

    Examples
    --------
    >>> import tempfile
    >>> from numformer.models import Decoder, DecoderConfig
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=1, n_heads=2, d_model=8)
    >>> model = Decoder(DecoderConfig(**sizes), np.random.default_rng(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, None, folder)
    ...     same, _ = load(folder)
    >>> ids = np.array([[1, 2, 3]])
    >>> np.array_equal(model(ids), same(ids))
    True
    """
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"load: dtype={dtype!r} must be 'float32' or 'float64', or left out.")
    folder, options, width = read_modules(Path(folder))
    facts = read_config(folder)
    found = tensors_of(folder)
    family = family_of_folder(folder, facts, found, options is not None)
    tensors = {}
    for name, known in family.canonical(found).items():
        if known in tensors:
            raise ValueError(f"{folder}: {name} is a second name for {known}; a file has one for "
                             "each tensor, so leave one of the two out.")
        tensors[known] = found[name]
    wide = any(tensor.dtype == "F64" for tensor in tensors.values())
    try:
        _check_sizes(family, family.flat(facts), tensors)
        config = family.config(facts, tensors, dtype or ("float64" if wide else "float32"),
                               **options or {})
        values = sum(prod(tensor.shape) for tensor in tensors.values())
        model = model_of_shapes(config, numbers=2 * values + SPARE)
        if width not in (None, config.d_model):
            raise ValueError(f"its width is {config.d_model}, but its pooling has {width}")
    except ValueError as error:
        raise ValueError(f"{folder / CONFIG}: {str(error).rstrip('.')}.") from None
    parameters = dict(model.named_parameters())
    rows = list(family.rows(config))
    zeros = {name: shape(config) for name, shape in family.zeros.items()}
    copies = family.copies_of(config)
    for copy, first in copies.items():                # libraries keep one of several tied names
        if first not in tensors and copy in tensors:
            tensors[first] = tensors.pop(copy)
    _check_tensors(folder, rows, parameters, tensors, copies, zeros)
    read = _tokenizer(folder) if tokenizer else None
    unread = family.others(facts)
    if unread:
        note(f"{folder / CONFIG}: not read, as the class of {family.model_type} declares no "
             f"{some_of(unread)}.")

    model.allocate()

    def fill(row):
        ours = row.part(parameters[row.ours].data)
        tensor, moves = tensors[row.theirs], all(part.moves for part in row.operations)
        theirs = row.read(tensor.mapped() if moves and not row.added else tensor.read())
        if row.added:
            ours += theirs
        else:
            _copy(theirs, ours)

    # The largest first: while one is mapped, memory of the later parameters is not in use yet
    rows.sort(key=lambda row: -prod(tensors[row.theirs].shape))
    for added in (False, True):
        run_side_by_side(fill, [row for row in rows if row.added == added])
    return model, read


def save(model, tokenizer, folder, family=None, more=None, dtype=None, published=None):
    """Write a model as a folder that transformers loads, and a `SentenceBert` as one that
    sentence-transformers loads.

    Parameters
    ----------
    model : Layer
    tokenizer : Tokenizer or None
    folder : path
        Made if it does not exist; it must not hold a model.
    family : str, optional
        Its name or ``model_type``, for a model that fits several: the first that fits unless
        given.
    more : dict, optional
        Keys of config.json that are no options of the model, such as ``eos_token_id``.
    dtype : {"bfloat16", "float16", "float32", "float64"}, optional
        Of the weights in the file, rounded to the nearest. Unless given, that of the published
        config.json where all weights still are such numbers, and else that of the model.
    published : dict, optional
        Files of the folder that the model came from, as from `read_published`: they are written
        again, and config.json keeps what it says besides the options of the model.

    Raises
    ------
    ValueError
        If no family has the options of the model, one of `more` might be an option, or a weight
        is too large for float16; then nothing is written.
    OSError
        If a file cannot be written; then no other one stays.
    """
    folder, family, more = Path(folder), family_of(model, family), more or {}
    published = published or {}
    if dtype not in (None, *_STORED):
        raise ValueError(f"save: dtype={dtype!r} must be one of {', '.join(_STORED)}.")
    for key in more:
        if family.table.get(key) is not IGNORED:
            raise ValueError(f"save: the key {key!r} cannot be added, as it may change the model.")
    for name in (CONFIG, WEIGHTS, MODULES):
        if (folder / name).exists():
            raise ValueError(f"save: {folder} has a {name} already; give a new folder.")
    arrays = _Published(model, family)
    dtype = dtype or _dtype_of(published.get(CONFIG, {}), arrays, model.config.dtype)
    kind, stored = _STORED[dtype]
    facts = family.facts(model.config) | {"torch_dtype": dtype}
    if published.get(CONFIG):
        facts = merged_config(facts, published[CONFIG], family, model.config)
    with undone_after_errors(folder):
        if tokenizer is not None:
            _save_tokenizer(tokenizer, folder)
        write_tensors(folder / WEIGHTS, [
            (name, kind, shape, lambda name=name: stored(name, arrays[name]))
            for name, shape in arrays.shapes.items()], {"format": "pt"})
        if family.kind == "SentenceBert":
            write_modules(model.config, folder)
        write_published(published, folder, tokenizer is not None)
        facts = json.dumps({**facts, **more}, indent=2, sort_keys=True)
        write_atomically(folder / CONFIG, f"{facts}\n".encode())


def gradients(model, family=None):
    """The gradients of a model, {published name: array}, through the same table as its weights.

    Parameters
    ----------
    model : Layer
        After a backward pass.
    family : str, optional
        As in `save`.
    """
    arrays = _Published(model, family_of(model, family), "gradient")
    return {name: arrays[name] for name in arrays.shapes}


def family_of(model, name=None):
    """The `Family` of a model; ValueError if there is none with its options."""
    if name not in (None, *FAMILIES, *(family.model_type for family in FAMILIES.values())):
        raise ValueError(f"family={name!r} is unknown; choose from {', '.join(FAMILIES)}.")
    chosen = [family for family in FAMILIES.values()
              if family.model is type(model) and name in (None, family.name, family.model_type)]
    if not chosen:
        raise ValueError(f"a {type(model).__name__} is of no published family"
                         f"{f' {name!r}' if name else ''}; these can be written: "
                         f"{', '.join(family.name for family in FAMILIES.values())}.")
    differences = [(family, family.differences(model.config)) for family in chosen]
    nearest, different = min(differences, key=lambda pair: (len(pair[1]), "config.json" in pair[1]))
    if different:
        options = ", ".join(f"{option}={brief(value)}" for option, value in different.items())
        raise ValueError(f"the model is of no published family: {nearest.name} is the nearest, but "
                         f"has no {options}.")
    plain = nearest.model(model.config, None)
    if _kinds_of_layers(plain) != _kinds_of_layers(model):
        raise ValueError("the model has other layers than its config says, as a recipe may change "
                         "them; only a model that is as its config says can be written.")
    return nearest


def _as_it_is(name, array):
    return array


def _in_half(name, array):
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    if not np.array_equal(np.isfinite(half), np.isfinite(array)):
        raise ValueError(f"save: {name} holds numbers that are too large for float16; use "
                         "bfloat16.")
    return half


# How numbers are stored: the dtype of the file, and its numbers of ours
_STORED = {"bfloat16": ("BF16", lambda name, array: to_bfloat16(array)),
           "float16": ("<f2", _in_half), "float32": ("<f4", _as_it_is),
           "float64": ("<f8", _as_it_is)}


def _dtype_of(facts, arrays, own):
    """The dtype of a published config.json, if all arrays can be stored in it as they are."""
    found = facts.get("torch_dtype", facts.get("dtype"))
    if found == "bfloat16":
        fits = all(np.array_equal(from_bfloat16(to_bfloat16(arrays[name])), arrays[name])
                   for name in arrays.shapes)
    else:
        with np.errstate(over="ignore"):
            fits = found == "float16" and all(
                np.array_equal(arrays[name].astype(np.float16), arrays[name])
                for name in arrays.shapes)
    return found if fits else own


class _Published:
    """The published arrays of a model, made one at a time."""

    def __init__(self, model, family, how="write"):
        self.parameters, self.how = dict(model.named_parameters()), how
        self.rows, self.shapes = {}, {}
        for row in family.rows(model.config):
            self.rows.setdefault(row.theirs, []).append(row)
            self.shapes[row.theirs] = row.shape(self.parameters[row.ours].data.shape)
        if how == "write":
            self.shapes |= {name: shape(model.config) for name, shape in family.zeros.items()}
        self.dtype = np.dtype(model.config.dtype)

    def __getitem__(self, name):
        theirs = np.zeros(self.shapes[name], self.dtype)
        for row in self.rows.get(name, ()):
            parameter = self.parameters[row.ours]
            getattr(row, self.how)(parameter.data if self.how == "write" else parameter.grad,
                                   theirs)
        return theirs


def _check_sizes(family, facts, tensors):
    """A number larger than there are values would build a model without end."""
    values = sum(prod(tensor.shape) for tensor in tensors.values())
    for key, value in facts.items():
        is_read = not isinstance(family.table.get(key, IGNORED), Ignored)
        if is_read and type(value) is int and abs(value) > max(values, 2**24):
            raise ValueError(f"{key!r} = {value}, but the tensors hold {values} values")


def _check_tensors(folder, rows, parameters, tensors, copies, zeros):
    """Names, shapes and dtypes, that copies are equal, and what must be zero; ValueError for the
    first fault."""
    expected = {row.theirs: row.shape(parameters[row.ours].data.shape) for row in rows}
    missing = [name for name in expected if name not in tensors]
    extra = [name for name in tensors if name not in {**expected, **copies, **zeros}]
    if missing or extra:
        raise ValueError(f"{folder}: its tensors do not fit its {CONFIG}; missing: "
                         f"{some_of(missing)}; unexpected: {some_of(extra)}.")
    for name, tensor in tensors.items():
        shape = zeros.get(name) or expected[copies.get(name, name)]
        if tensor.shape != shape:
            raise ValueError(f"{folder}: {name} has shape {tensor.shape}, but must have {shape}.")
        if tensor.dtype not in FLOATS:
            raise ValueError(f"{folder}: {name} is of dtype {tensor.dtype}, but must be one of "
                             f"{', '.join(FLOATS)}.")
    for name in copies.keys() & tensors.keys():
        if not np.array_equal(tensors[name].read(), tensors[copies[name]].read(), equal_nan=True):
            raise ValueError(f"{folder}: {name} must equal {copies[name]}, because they are tied, "
                             "but differs.")
    for name in zeros.keys() & tensors.keys():
        if np.any(tensors[name].read()):
            raise ValueError(f"{folder}: {name} must be zero everywhere, because the model has no "
                             "such parameter, but it is not.")


def _copy(theirs, ours):
    """Copy, and widen, strips that fit the cache: so a transposed matrix takes half the time."""
    axis = int(theirs.ndim == 2 and theirs.strides[0] < theirs.strides[1])
    length = ours.shape[axis] if ours.size > BLOCK else 1
    width = STRIP if axis else max(1, BLOCK * length // max(1, ours.size))
    for first in range(0, length, width):
        part = np.s_[:, first:first + width] if axis else np.s_[first:first + width]
        part = part if length > 1 else ...
        ours[part] = widened(theirs[part])


def _kinds_of_layers(model):
    return [(name, type(layer)) for name, layer in model.named_layers()]


def _tokenizer(folder):
    """The tokenizer of a folder, or None."""
    try:
        from numformer.data.tokenizers.published import load_tokenizer
    except ImportError:
        return None
    try:
        return load_tokenizer(folder)
    except FileNotFoundError:
        return None


def _save_tokenizer(tokenizer, folder):
    try:
        from numformer.data.tokenizers.published import save_tokenizer
    except ImportError:
        raise ValueError(f"save: {tokenizer!r} cannot be written; give None instead of it (export: "
                         "--no-tokenizer).") from None
    save_tokenizer(tokenizer, folder)
