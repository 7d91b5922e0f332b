"""Encoders without a head, each the backbone of a `SentenceBert`.

transformers calls them BertModel, RobertaModel, and so on. They give a vector for every token; a
folder of sentence-transformers says how these become one for a text, see `sentence_folder`. Without
such files it is their mean, as in that library.
"""

from dataclasses import replace

from numformer.models.bert.bert_weights import (
    ACTIVATIONS, BERT, CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA, distilbert_encoder, encoder)
from numformer.models.bert.modernbert_weights import MODERNBERT, encoder as modernbert_encoder
from numformer.models.bert.sentence_bert import SentenceBert
from numformer.weights.keys import IGNORED, Option
from numformer.weights.table import linear

_OF_BERT = ("next_sentence", "head_bias")             # options of the heads


def _without_head(family, architecture, rows, heads, keys, pooler=False):
    """The family of the same backbone, some keys of which mean something else without a head:
    `heads` are tensors of heads, as a regular expression."""
    outer = family.prefix

    def its_rows(config):
        for row in rows(config):
            yield row._replace(theirs=row.theirs.removeprefix(outer))
        if config.pooler:
            yield from linear("pooler.linear", "pooler.dense")

    buffers = rf"({outer})?embeddings\.(position_ids|token_type_ids)|{heads}|fit_dense.*"
    return replace(
        family, name=f"sentence-{family.name}", model_type=family.name, model=SentenceBert,
        architectures=(architecture,), architecture=None,
        keys=family.keys | keys, rows=its_rows, copies={}, prefix="",
        outer=outer, head="", elsewhere=("pooling", "normalize", "max_length"),
        options={name: value for name, value in family.options.items() if name not in _OF_BERT},
        buffers=buffers if pooler else rf"{buffers}|({outer})?pooler\..*",
        by_names=lambda names: {"pooler": pooler and "pooler.dense.weight" in names})


_GELU = Option("feedforward", "gelu", ACTIVATIONS)
SENTENCES = (
    _without_head(BERT, "BertModel", lambda c: encoder(c, "bert"), r"cls\..*",
                  {"hidden_act": _GELU}, True),
    *(_without_head(family, architecture, lambda c: encoder(c, "roberta", first_row=2),
                    r"lm_head\..*", {}, True)
      for family, architecture in ((ROBERTA, "RobertaModel"), (XLM_ROBERTA, "XLMRobertaModel"),
                                   (CAMEMBERT, "CamembertModel"))),
    _without_head(DISTILBERT, "DistilBertModel", distilbert_encoder, r"vocab_.*",
                  {"activation": _GELU}),
    _without_head(MODERNBERT, "ModernBertModel", modernbert_encoder, r"(head|decoder)\..*",
                  dict.fromkeys(("classifier_activation", "classifier_bias", "decoder_bias"),
                                IGNORED)),
)
