"""Files of a published folder that are not ours: they travel with a run, and go back as they came.

They hold the ids of special tokens, how texts are generated, the template of a conversation, names
of classes, and the class of the tokenizer. A checkpoint has them as ``facts["published"]``.
"""

import json

from numformer.files import MIB, parse_json, read_file, write_atomically
from numformer.interop.config_file import CONFIG
from numformer.weights.keys import Ignored

GENERATION, TOKENIZER, TEMPLATE = ("generation_config.json", "tokenizer_config.json",
                                   "chat_template.jinja")
_KINDS = {CONFIG: dict, GENERATION: dict, TOKENIZER: dict, TEMPLATE: str,
          "special_tokens_map.json": dict, "preprocessor_config.json": dict}
_MOST = 8 * MIB                                       # of a file; the largest published has 1 MiB
# Of config.json: what is about the file itself, or about files that do not travel
_OF_THE_FILE = ("architectures", "auto_map", "dtype", "model_type", "torch_dtype")


def read_published(folder):
    """The content of these files, by name; those that a folder does not have are left out.

    Raises
    ------
    ValueError
        If one of them is malformed.
    """
    found = {}
    for name, kind in _KINDS.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            data = read_file(path, _MOST)
            found[name] = data.decode() if kind is str else parse_json(data)
        except ValueError as error:
            raise ValueError(f"{name} is no config ({error}).") from None
        if not isinstance(found[name], kind):
            raise ValueError(f"{name} is no config (it must hold an object).")
    return found


def check_published(found):
    """ValueError if it is not what `read_published` returns."""
    if not isinstance(found, dict) or not all(
            isinstance(value, _KINDS.get(name, ())) for name, value in found.items()):
        raise ValueError(f"published must hold contents of {', '.join(_KINDS)}")


def write_published(found, folder, has_tokenizer=True):
    """Write these files but config.json, which `merged_config` is for.

    Parameters
    ----------
    found : dict
        As from `read_published`.
    folder : Path
    has_tokenizer : bool
        Whether the folder has a tokenizer; without one, its settings are left out.
    """
    left_out = {CONFIG} if has_tokenizer else {CONFIG, TOKENIZER, "special_tokens_map.json"}
    for name, value in found.items():
        if name not in left_out:
            text = value if isinstance(value, str) else json.dumps(
                value, indent=2, ensure_ascii=False) + "\n"
            write_atomically(folder / name, text.encode("utf-8", "surrogatepass"))


def merged_config(facts, published, family, config):
    """Our config.json, with what the published one says besides the options of the model.

    Parameters
    ----------
    facts : dict
        What we write.
    published : dict
        The published config.json. Where it describes the same model, it is kept, spelling and all.
    family : Family
    config : Config
        Of the model.
    """
    names = {row.theirs for row in family.rows(config)}
    try:
        own = {"architectures": facts["architectures"]}
        read = family.config(published | own, names, config.dtype, **{
            name: getattr(config, name) for name in family.elsewhere})
    except ValueError:                                # another family's
        return facts
    kept = {key: value for key, value in published.items() if key not in _OF_THE_FILE}
    if family.same(read, config):
        return {key: facts[key] for key in _OF_THE_FILE if key in facts} | kept
    table = family.table
    return facts | {key: value for key, value in kept.items()
                    if key not in table or isinstance(table[key], Ignored)}
