"""BERT, RoBERTa and DistilBERT, with the heads of their pre-training.

XLM-RoBERTa and CamemBERT are RoBERTa with other tokens and sizes, and the same names of tensors.
"""

from dataclasses import replace

from numformer.models.bert.model import Bert
from numformer.weights.family import Family
from numformer.weights.keys import IGNORED, RATE, Fixed, Option, Rows
from numformer.weights.operations import FLIPPED, TRANSPOSED, Part
from numformer.weights.table import Row, linear, norm

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
               "relu": "relu", "silu": "silu"}
_KEYS = {
    "vocab_size": Option("vocab_size"), "hidden_size": Option("d_model"),
    "num_hidden_layers": Option("n_layers"), "num_attention_heads": Option("n_heads"),
    "intermediate_size": Option("d_hidden"), "layer_norm_eps": Option("epsilon", 1e-12),
    "initializer_range": Option("init_std", 0.02),
    "hidden_dropout_prob": Option("dropout", 0.1),
    "attention_probs_dropout_prob": RATE,
    "type_vocab_size": Option("segments", 2, least=1),
    "position_embedding_type": Fixed("absolute"), "is_decoder": Fixed(False),
    "add_cross_attention": Fixed(False), "tie_word_embeddings": Fixed(True),
    **dict.fromkeys(("classifier_dropout", "directionality",
                     "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                     "pooler_size_per_head", "pooler_type",
                     # of TinyBERT's files
                     "cell", "emb_size", "pre_trained", "structure", "training"), IGNORED)}
_LAYER = (("attention.query", "attention.self.query"), ("attention.key", "attention.self.key"),
          ("attention.value", "attention.self.value"),
          ("attention.output", "attention.output.dense"),
          ("feedforward.hidden", "intermediate.dense"), ("feedforward.output", "output.dense"))
_NORMS = ("norm1", "attention.output.LayerNorm"), ("norm2", "output.LayerNorm")


def encoder(config, name, first_row=0, layers="encoder.layer", linears=_LAYER, norms=_NORMS):
    """The rows of the backbone; the first rows of RoBERTa's positions are for padding."""
    ours, theirs = "backbone", f"{name}.embeddings"
    operations = (Part(0, first_row, config.context_length + first_row),) if first_row else ()
    yield Row(f"{ours}.embedding.weight", f"{theirs}.word_embeddings.weight")
    yield Row(f"{ours}.positions.weight", f"{theirs}.position_embeddings.weight", operations)
    if config.segments:
        yield Row(f"{ours}.segments.weight", f"{theirs}.token_type_embeddings.weight")
    yield from norm(f"{ours}.norm", f"{theirs}.LayerNorm")
    for n in range(config.n_layers):
        block, layer = f"{ours}.encoder.blocks.{n}", f"{name}.{layers}.{n}"
        for part, other in linears:
            yield from linear(f"{block}.{part}", f"{layer}.{other}")
        for part, other in norms:
            yield from norm(f"{block}.{part}", f"{layer}.{other}")


def _head(linear_map, norm_name, bias):
    yield from linear("head.linear", linear_map)
    yield from norm("head.norm", norm_name)
    yield Row("head.bias", bias)


def _bert(config):
    yield from encoder(config, "bert")
    yield from _head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                     "cls.predictions.bias")
    if config.next_sentence:
        yield from linear("pooler.linear", "bert.pooler.dense")
        # theirs has "follows" first, ours last
        yield Row("next_sentence.weight", "cls.seq_relationship.weight", (FLIPPED, TRANSPOSED))
        yield Row("next_sentence.bias", "cls.seq_relationship.bias", (FLIPPED,))


def _roberta(config):
    yield from encoder(config, "roberta", first_row=2)
    yield from _head("lm_head.dense", "lm_head.layer_norm", "lm_head.bias")


def distilbert_encoder(config):
    """The rows of DistilBERT's backbone."""
    names = [*((f"attention.{part}", f"attention.{part[0]}_lin")
               for part in ("query", "key", "value")), ("attention.output", "attention.out_lin"),
             ("feedforward.hidden", "ffn.lin1"), ("feedforward.output", "ffn.lin2")]
    norms = ("norm1", "sa_layer_norm"), ("norm2", "output_layer_norm")
    yield from encoder(config, "distilbert", 0, "transformer.layer", names, norms)


def _distilbert(config):
    yield from distilbert_encoder(config)
    yield from _head("vocab_transform", "vocab_layer_norm", "vocab_projector.bias")


# The masked-token head of ours has the exact GELU, as the one of the published code has if
# hidden_act is "gelu"; RoBERTa's has it always
BERT = Family(
    name="bert", model=Bert, architectures=("BertForMaskedLM", "BertForPreTraining"),
    keys={**_KEYS, "max_position_embeddings": Option("context_length"),
          "hidden_act": Option("feedforward", "gelu", {"gelu": "gelu"})},
    # TinyBERT's maps of its hidden states to those of its teacher are for distillation alone
    rows=_bert, prefix="bert.", head="cls.predictions.bias",
    buffers=r"bert\.embeddings\.position_ids|fit_dense(s\.\d+)?\.\w+",
    copies={"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias"},
    by_names=lambda names: {"next_sentence": "cls.seq_relationship.weight" in names},
    architecture=lambda c: "BertForPreTraining" if c.next_sentence else "BertForMaskedLM")

ROBERTA = Family(
    name="roberta", model=Bert, architectures=("RobertaForMaskedLM",),
    options=dict(next_sentence=False),
    keys={**_KEYS, "max_position_embeddings": Rows("context_length", 2),
          "hidden_act": Option("feedforward", "gelu", ACTIVATIONS),
          "pad_token_id": Fixed(1)},                  # positions begin after it
    rows=_roberta, prefix="roberta.", head="lm_head.bias",
    buffers=r"roberta\.embeddings\.(position_ids|token_type_ids)|roberta\.pooler\.dense\.\w+",
    copies={"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias"})
XLM_ROBERTA = replace(ROBERTA, name="xlm-roberta", model_type="xlm-roberta",
                      architectures=("XLMRobertaForMaskedLM",))
CAMEMBERT = replace(ROBERTA, name="camembert", model_type="camembert",
                    architectures=("CamembertForMaskedLM",))

DISTILBERT = Family(
    name="distilbert", model=Bert, architectures=("DistilBertForMaskedLM",),
    options=dict(segments=0, next_sentence=False, epsilon=1e-12),
    keys={
        "vocab_size": Option("vocab_size"), "max_position_embeddings": Option("context_length"),
        "dim": Option("d_model"), "n_layers": Option("n_layers"), "n_heads": Option("n_heads"),
        "hidden_dim": Option("d_hidden"), "initializer_range": Option("init_std", 0.02),
        "activation": Option("feedforward", "gelu", {"gelu": "gelu"}),
        "dropout": Option("dropout", 0.1), "attention_dropout": RATE,
        "tie_word_embeddings": Fixed(True), "tie_weights_": Fixed(True),
        # Sinusoids are initial values of the table, which is in the file in any case
        **dict.fromkeys(("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout"), IGNORED)},
    rows=_distilbert, prefix="distilbert.", head="vocab_projector.bias",
    buffers=r"distilbert\.embeddings\.position_ids",
    copies={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"})
