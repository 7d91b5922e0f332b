"""How a published model generates texts: which tokens end one, and how tokens are chosen.

generation_config.json says so; a folder without it, as old ones are, says it in config.json.
"""

from reprlib import repr as brief
from typing import NamedTuple

from numformer.generation import check_sampling
from numformer.interop.config_file import CONFIG
from numformer.interop.published_files import GENERATION

_CHOICE = ("do_sample", "temperature", "top_k", "top_p")
TOP_K = 50                                            # of published code that samples, unless given
# Settings that ours has not, and the values at which they do nothing
_NOT_OURS = {"repetition_penalty": (None, 1, 1.0), "num_beams": (None, 1), "min_p": (None, 0, 0.0),
             "typical_p": (None, 1, 1.0), "no_repeat_ngram_size": (None, 0),
             "penalty_alpha": (None, 0, 0.0)}


class TextSettings(NamedTuple):
    """What a folder says about generated texts.

    Parameters
    ----------
    end : tuple of int
        Ids that end a text.
    temperature : float or None
        0 is greedy; None where the folder says nothing about sampling.
    top_k : int or None
    top_p : float or None
    unused : tuple of str
        Settings that would change texts, and that `numformer.generation` does not have.
    """

    end: tuple = ()
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    unused: tuple = ()

    def __str__(self):
        if self.temperature is None:
            chosen = "no way of sampling"
        elif self.temperature == 0:
            chosen = "greedy"
        else:
            chosen = f"temperature {self.temperature:g}"
            chosen += f", top-k {self.top_k}" if self.top_k else ""
            chosen += f", top-p {self.top_p:g}" if self.top_p else ""
        return chosen + "".join(f"; {name} is not applied" for name in self.unused)


def text_settings(published, vocab_size):
    """The settings of the files of a folder.

    Parameters
    ----------
    published : dict
        As from `read_published`; without files, nothing ends a text.
    vocab_size : int

    Raises
    ------
    ValueError
        If an id or a setting is no number, or out of range.

    Examples
    --------
    >>> generation = {"do_sample": True, "top_p": 0.9, "eos_token_id": [1, 2]}
    >>> settings = text_settings({"generation_config.json": generation}, 9)
    >>> settings.end, str(settings)
    ((1, 2), 'temperature 1, top-k 50, top-p 0.9')
    """
    config, generation = published.get(CONFIG, {}), published.get(GENERATION)
    facts = config if generation is None else generation
    end = facts.get("eos_token_id")
    end = config.get("eos_token_id") if end is None else end
    end = [] if end is None else end if isinstance(end, list) else [end]
    if any(type(token) is not int for token in end):
        raise ValueError(f"'eos_token_id' = {brief(end)} must be a whole number, or several.")
    # One that the model does not have ends nothing
    end = tuple(token for token in dict.fromkeys(end) if 0 <= token < vocab_size)
    unused = tuple(name for name, neutral in _NOT_OURS.items() if facts.get(name) not in neutral)
    if all(facts.get(name) is None for name in _CHOICE):
        return TextSettings(end, unused=unused)
    if not facts.get("do_sample"):
        return TextSettings(end, 0.0, unused=unused)
    temperature, top_k, top_p = (facts.get(name) for name in _CHOICE[1:])
    temperature = 1.0 if temperature is None else temperature
    top_k = TOP_K if top_k is None else top_k or None                 # 0: all
    top_p = None if top_p in (None, 1, 1.0) else top_p
    check_sampling(temperature, top_k, top_p)
    return TextSettings(end, temperature, top_k, top_p, unused)
