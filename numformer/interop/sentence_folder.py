"""Folders of sentence-transformers: an encoder, and files that say how texts become vectors.

modules.json lists the steps: the encoder of transformers, pooling, and perhaps a division by the
norm. Each has a folder with its settings.

Source: https://github.com/UKPLab/sentence-transformers, of Reimers and Gurevych (2019),
"Sentence-BERT".
"""

import json
import re
from reprlib import repr as brief

from numformer.files import MIB, parse_json, read_file, write_atomically

MODULES, MOST = "modules.json", 16 * MIB
SETTINGS = ("sentence_bert_config.json", "sentence_roberta_config.json",
            "sentence_distilbert_config.json")
TEXTS, POOLING, NORMALIZE = "config_sentence_transformers.json", "1_Pooling", "2_Normalize"
# Published modes -> ours; those of null are refused
_MODES = {"cls": "class", "mean": "mean", "max": "max", "mean_sqrt_len": None,
          "weightedmean": None, "lasttoken": None}
_FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean",
          "pooling_mode_max_tokens": "max", "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
          "pooling_mode_weightedmean_tokens": "weightedmean",
          "pooling_mode_lasttoken": "lasttoken"}


def read_modules(folder):
    """(the folder of the encoder, options of a `SentenceBertConfig`, its width or None).

    Parameters
    ----------
    folder : Path

    Returns
    -------
    Path, dict or None, int or None
        Without a modules.json: `folder`, None, None.

    Raises
    ------
    ValueError
        If a module or a setting is there that a `SentenceBert` does not have, by its name.
    """
    path = folder / MODULES
    if not path.exists():
        return folder, None, None
    modules = _read(path, list)
    kinds, places = [], []
    for module in modules:
        kind, place = (module.get("type"), module.get("path")) if isinstance(
            module, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(place, str) or (
                place and (not re.fullmatch(r"[\w.-]+", place) or set(place) == {"."})):
            raise ValueError(f"{path}: {brief(module)} must have a type and the path of a folder "
                             "of its own.")
        kinds.append(kind.rsplit(".", 1)[-1])
        places.append(folder / place)
    unknown = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if unknown:
        raise ValueError(f"{path}: the module {brief(unknown[0])} is none of a SentenceBert, whose "
                         "modules are Transformer, Pooling and Normalize.")
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ValueError(f"{path}: the modules are {', '.join(kinds)}, but must be Transformer, "
                         "Pooling and perhaps Normalize, in this order.")
    pooling, width = _pooling(places[1] / "config.json")
    options = {"pooling": pooling, "normalize": len(kinds) == 3}
    _check_texts(folder / TEXTS)
    for name in SETTINGS:
        if (places[0] / name).exists():
            options["max_length"] = _length(places[0] / name)
            break
    return places[0], options, width


def write_modules(config, folder):
    """Write these files for a `SentenceBertConfig`; the encoder is in the folder itself."""
    modules = [("", "Transformer"), (POOLING, "Pooling")]
    modules += [(NORMALIZE, "Normalize")] * config.normalize
    (folder / POOLING).mkdir(exist_ok=True)
    if config.normalize:
        (folder / NORMALIZE).mkdir(exist_ok=True)     # it has no settings
    _write(folder / POOLING / "config.json", {
        "word_embedding_dimension": config.d_model,
        **{flag: _MODES[mode] == config.pooling for flag, mode in _FLAGS.items()},
        "include_prompt": True})
    _write(folder / SETTINGS[0], {"max_seq_length": config.max_length or config.context_length,
                                  "do_lower_case": False})
    _write(folder / TEXTS, {"prompts": {}, "default_prompt_name": None,
                            "similarity_fn_name": "cosine"})
    _write(folder / MODULES, [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(modules)])


def _pooling(path):
    """(our pooling, the width)"""
    facts = _read(path)
    width = facts.pop("word_embedding_dimension", facts.pop("embedding_dimension", None))
    facts.pop("include_prompt", None)                 # of texts before the text, which ours has not
    modes = [facts.pop("pooling_mode")] if "pooling_mode" in facts else []
    for flag, mode in _FLAGS.items():
        if facts.pop(flag, False):
            modes.append(mode)
    _check_known(path, facts)
    if type(width) is not int:
        raise ValueError(f"{path}: word_embedding_dimension = {brief(width)} must be a whole "
                         "number.")
    if len(set(map(str, modes))) != 1 or _MODES.get(str(modes[0])) is None:
        raise ValueError(f"{path}: its poolings are {', '.join(map(str, modes)) or 'none'}, but "
                         "must be one of cls, mean and max.")
    return _MODES[modes[0]], width


def _length(path):
    facts = _read(path)
    length, lower = facts.pop("max_seq_length", None), facts.pop("do_lower_case", False)
    _check_known(path, facts)
    if lower not in (False, None):
        raise ValueError(f"{path}: 'do_lower_case' = {brief(lower)} must be False; a tokenizer may "
                         "do it instead.")
    if length is not None and (type(length) is not int or length < 1):
        raise ValueError(f"{path}: 'max_seq_length' = {brief(length)} must be null or a whole "
                         "number, 1 or more.")
    return length


def _check_texts(path):
    """ValueError if each text gets another one before it."""
    prompt = _read(path).get("default_prompt_name") if path.exists() else None
    if prompt is not None:
        raise ValueError(f"{path}: 'default_prompt_name' = {brief(prompt)} must be null; the "
                         "prompt would become a part of every text.")


def _check_known(path, facts):
    if facts:
        key, value = next(iter(facts.items()))
        raise ValueError(f"{path}: the key {brief(key)} = {brief(value)} is not known, and might "
                         "change the vectors.")


def _read(path, kind=dict):
    try:
        value = parse_json(read_file(path, MOST))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing; copy the whole folder.") from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}).") from None
    if not isinstance(value, kind):
        raise ValueError(f"{path} must hold {'an object' if kind is dict else 'a list'}.")
    return value


def _write(path, value):
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())
