"""When models were published, and how many parameters they have."""

from typing import NamedTuple

from numformer.analysis.counting import count


class ModelSize(NamedTuple):
    """A published model: its name in `numformer.models`, date, parameters and source."""

    name: str
    year: float
    parameters: int
    family: str
    source: str


# Year and month of the first version of the source; for GPT and GPT-2 those of the blog post
PUBLISHED = (
    ("transformer-base", 2017, 6, "encoder-decoder", "Vaswani et al., arXiv:1706.03762"),
    ("transformer-big", 2017, 6, "encoder-decoder", "Vaswani et al., arXiv:1706.03762"),
    ("gpt1", 2018, 6, "decoder", "Radford et al. (2018), OpenAI"),
    ("bert-base", 2018, 10, "encoder", "Devlin et al., arXiv:1810.04805"),
    ("bert-large", 2018, 10, "encoder", "Devlin et al., arXiv:1810.04805"),
    ("gpt2", 2019, 2, "decoder", "Radford et al. (2019), OpenAI"),
    ("gpt2-xl", 2019, 2, "decoder", "Radford et al. (2019), OpenAI"),
    ("roberta-large", 2019, 7, "encoder", "Liu et al., arXiv:1907.11692"),
    ("t5-small", 2019, 10, "encoder-decoder", "Raffel et al., arXiv:1910.10683"),
    ("t5-large", 2019, 10, "encoder-decoder", "Raffel et al., arXiv:1910.10683"),
    ("bart-large", 2019, 10, "encoder-decoder", "Lewis et al., arXiv:1910.13461"),
    ("gpt3-small", 2020, 5, "decoder", "Brown et al., arXiv:2005.14165"),
    ("gpt3", 2020, 5, "decoder", "Brown et al., arXiv:2005.14165"),
    ("vit-base", 2020, 10, "encoder", "Dosovitskiy et al., arXiv:2010.11929"),
    ("vit-huge", 2020, 10, "encoder", "Dosovitskiy et al., arXiv:2010.11929"),
    ("llama-7b", 2023, 2, "decoder", "Touvron et al., arXiv:2302.13971"),
    ("llama-65b", 2023, 2, "decoder", "Touvron et al., arXiv:2302.13971"),
    ("llama2-70b", 2023, 7, "decoder", "Touvron et al., arXiv:2307.09288"),
    ("mixtral-8x7b", 2024, 1, "decoder", "Jiang et al., arXiv:2401.04088"),
    ("llama3-8b", 2024, 7, "decoder", "Grattafiori et al., arXiv:2407.21783"),
    ("llama3-405b", 2024, 7, "decoder", "Grattafiori et al., arXiv:2407.21783"),
    ("modernbert-large", 2024, 12, "encoder", "Warner et al., arXiv:2412.13663"),
)


def model_sizes():
    """The published models that numformer has, with their dates; counted, not copied.

    Returns
    -------
    list of ModelSize
        In the order of their dates; a year as a number with the month as its fraction.

    Examples
    --------
    >>> sizes = model_sizes()
    >>> largest = max(sizes, key=lambda size: size.parameters)
    >>> largest.name, largest.parameters // 10 ** 9
    ('llama3-405b', 405)
    """
    from numformer.models import CONFIGS, VISION_CONFIGS               # imports this package

    configs = CONFIGS | VISION_CONFIGS
    return [ModelSize(name, year + (month - 0.5) / 12, count(configs[name])["parameters"], family,
                      source) for name, year, month, family, source in PUBLISHED]
