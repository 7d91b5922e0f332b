"""The config.json of a folder, and the family that it belongs to."""

from reprlib import repr as brief

from numformer.files import MIB, parse_json, read_file
from numformer.interop.families import FAMILIES
from numformer.interop.known_families import not_served

CONFIG, MOST = "config.json", 16 * MIB


def read_config(folder):
    """The content of config.json, of a family that is known."""
    path = folder / CONFIG
    if not path.exists():
        raise ValueError(f"{folder} has no {CONFIG}; give the folder of a published model.")
    try:
        facts = parse_json(read_file(path, MOST))
        name = facts.get("model_type")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is no config ({error}).") from None
    if name not in [family.model_type for family in FAMILIES.values()]:
        raise ValueError(f"{path}: model_type {brief(name)} is not known; {not_served(name)}.")
    return facts


def family_of_folder(folder, facts, tensors, of_sentences):
    """The family of a folder, of those with its model_type: by its first architecture; without
    one, by its tensors; and in a folder of sentence-transformers always the one without a head."""
    families = [family for family in FAMILIES.values() if family.model_type == facts["model_type"]]
    if of_sentences:
        facts.pop("architectures", None)
        families = [family for family in families if family.kind == "SentenceBert"]
        if not families:
            raise ValueError(f"{folder / CONFIG}: model_type {facts['model_type']!r} is no encoder "
                             "of a SentenceBert.")
    found = facts.get("architectures")
    if found:
        known = {name: family for family in families for name in family.architectures}
        if not isinstance(found, list) or found[0] not in list(known):
            raise ValueError(f"{folder / CONFIG}: 'architectures' = {brief(found)} must be one of "
                             f"{', '.join(known)}.")
        return known[found[0]]
    fitting = [family for family in families
               if not family.head or family.head in family.canonical(tensors).values()]
    return (fitting or families)[0]
