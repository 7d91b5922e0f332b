"""The tensors of a folder of published weights: of one file, or of several that an index names."""

import re
from pathlib import Path

from numformer.files import read_file
from numformer.files.tensors import MOST_HEADER, parse_names, tensors_of_file

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
# From pickles that hold tensors alone, one file or several
CONVERT = ("python -c \"import glob, torch; from safetensors.torch import save_file; save_file({k: "
           "v.contiguous().clone() for f in glob.glob('pytorch_model*.bin') for k, v in "
           "torch.load(f, weights_only=True).items()}, 'model.safetensors')\"")
FLOATS = ("F64", "F32", "F16", "BF16")                # dtypes that a model can have


def tensors_of(folder):
    """All tensors of a folder by name, of one file or of several that an index names.

    Returns
    -------
    dict of str to Tensor

    Raises
    ------
    ValueError
        If there is no such file, it is cut short or malformed, or holds a tensor that is no float.
    """
    folder = Path(folder)
    if not (folder / WEIGHTS).exists():               # one file has priority, as in the library
        if (folder / INDEX).exists():
            return _of_shards(folder)
        pickles = [path.name for path in sorted(folder.glob("*.bin"))]
        if pickles:
            raise ValueError(f"{folder} has its weights in {pickles[0]}, a pickle, which can run "
                             f"code when it is read; convert it there: {CONVERT}")
        raise ValueError(f"{folder} has no {WEIGHTS} and no {INDEX}; give the folder of a "
                         "published model.")
    return tensors_of_file(folder / WEIGHTS)


def _of_shards(folder):
    index = folder / INDEX
    try:
        places = parse_names(read_file(index, MOST_HEADER))["weight_map"]
        files = sorted(set(places.values()))
        wrong = [name for name in files if not re.fullmatch(r"[\w.-]+\.safetensors", name)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{index} is no index of safetensors ({error}).") from None
    if wrong:
        raise ValueError(f"{index} names {wrong[0]!r}, which is no file of its own folder.")
    absent = [name for name in files if not (folder / name).exists()]
    if absent:
        raise ValueError(f"{index} names {absent[0]}, which is not there; copy all shards.")
    found = {}
    for file in files:
        for name, tensor in tensors_of_file(folder / file).items():
            if places.get(name) != file:
                raise ValueError(f"{folder / file} holds {name}, but {index} does not have it "
                                 "there.")
            found[name] = tensor
    missing = [name for name in places if name not in found]
    if missing:
        raise ValueError(f"{index} has {missing[0]} in {places[missing[0]]}, which does not hold "
                         "it.")
    return found
