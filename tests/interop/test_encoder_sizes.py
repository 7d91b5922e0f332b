"""Published configs of encoders: transformers' own models have as many parameters as ours, and
their names and shapes are those of the table. Nothing is allocated."""

import pytest

from numformer.models import KINDS
from test_published_sizes import FILES, POOLER, family_of_facts
from witness import quiet, torch, transformers as t

KNOWN = "bert", "roberta", "distilbert", "modernbert", "vit", "deit"
ENCODERS = [name for name, (facts, _) in FILES.items() if facts["model_type"] in KNOWN]


@quiet
@pytest.mark.parametrize("name", ENCODERS)
def test_sizes_of_their_models(name):
    facts, total = FILES[name]
    architecture = facts["architectures"][0]
    with torch.device("meta"):
        theirs = getattr(t, architecture)(t.AutoConfig.for_model(**facts))
    assert sum(parameter.numel() for parameter in theirs.parameters()) == total
    shapes = {name: tuple(parameter.shape) for name, parameter in theirs.named_parameters()}
    family = family_of_facts(facts)
    config = family.config(facts, POOLER if architecture == "BertModel" else (), "float32")
    parameters = dict(KINDS[family.kind][0](config, None).named_parameters())
    rows = {row.theirs: row.shape(parameters[row.ours].data.shape) for row in family.rows(config)}
    if family.kind == "VisionTransformer":            # saved under other names than in memory
        assert sorted(rows.values()) == sorted(shapes.values())
    else:
        assert rows == shapes
