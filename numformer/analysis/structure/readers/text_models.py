"""Language models, encoders of texts, and encoder-decoders."""

import numpy as np

from numformer.description import VECTORS, Column, Residual, Row, Stack
from numformer.functional import cosine_similarity
from numformer.models.ngram.kneser_ney import KneserNey

TOKENS, MASKED = "tokens (B, T)", "Masked self-attention"
COSINE = (r"d\hat{u} = ds\,\hat{v}",
          r"du = (d\hat{u} - \hat{u}\,(\hat{u} \cdot d\hat{u})) / |u|")
AT_TOKEN = (r"dx_t = dy\;\mathrm{at\ the\ token,\ else}\;0",)


def transformer_sizes(config, reader):
    """Name the sizes that all Transformers have."""
    reader.letter("C", config.d_model)
    reader.letter("H", config.n_heads)
    if config.n_kv_heads not in (None, config.n_heads):
        reader.letter("G", config.n_kv_heads)
    reader.letter("D", config.head_width)
    reader.letter("F", config.hidden_width)
    if getattr(config, "n_experts", 1) > 1:
        reader.letter("E", config.n_experts)


def text_sizes(config, reader):
    """Name those, the vocabulary and the context."""
    if getattr(config, "context_length", None):
        reader.at_most("T", config.context_length)
    transformer_sizes(config, reader)
    return "B", "T", reader.letter("V", config.vocab_size)


def decoder_features(m, reader):
    """The parts of a decoder without its head."""
    text_sizes(m.config, reader)
    return (*reader.boxes(VECTORS, m.embedding, m.positions, m.embedding_norm),
            *reader.stacks(m.blocks, MASKED), *reader.boxes(VECTORS, m.norm))


def decoder(m, reader):
    features = decoder_features(m, reader)
    logits = "B", "T", reader.letter("V", m.config.vocab_size)
    return (Column(TOKENS, (*features, *reader.boxes(logits, m.head))),), ()


def decoder_classifier(m, reader):
    features = decoder_features(m.backbone, reader)
    last = reader.function(("B", "C"), "Last token", type(m), "its vector at the top", AT_TOKEN)
    head, = reader.boxes(("B", m.config.n_classes), m.classes, name="Linear head")
    unused = reader.boxes(("B", "T", "V"), m.backbone.head)
    return (Column(TOKENS, (*features, Row(((last, head), unused)))),), ()


def encoder_decoder(m, reader):
    logits = text_sizes(m.config, reader)
    reader.at_most("S", m.config.context_length)
    memory = "B", "S", "C"
    encoder = (*reader.boxes(memory, m.embedding, m.input_positions, m.input_norm),
               *reader.stacks(m.encoder.blocks, shape=memory),
               *reader.boxes(memory, m.encoder.norm))
    parts = (*reader.boxes(VECTORS, m.embedding, m.output_positions, m.output_norm),
             *reader.stacks(m.blocks, MASKED), *reader.boxes(VECTORS, m.norm),
             *reader.boxes(logits, m.head))
    return (Column("inputs (B, S)", encoder), Column("outputs so far (B, T)", parts)), ()


def bert_encoder(b, reader):
    """The parts of the encoder of every BERT."""
    text_sizes(b.config, reader)
    windows = [pattern.window for pattern in b.patterns()]
    return (*reader.boxes(VECTORS, b.embedding, b.positions),
            *reader.boxes(VECTORS, b.segments, name="+ Segment embedding"),
            *reader.boxes(VECTORS, b.norm),
            *reader.stacks(b.encoder.blocks, windows=windows),
            *reader.boxes(VECTORS, b.encoder.norm))


def bert(m, reader):
    parts = bert_encoder(m.backbone, reader)
    heads = [reader.boxes(("B", "T", "V"), m.head)]
    if m.next_sentence is not None:
        heads.append((*reader.boxes(("B", "C"), m.pooler),
                      *reader.boxes(("B", 2), m.next_sentence, name="Next-sentence head")))
    return (Column(TOKENS, (*parts, *_heads(heads))),), ()


def bert_heads(m, reader):
    """A BERT encoder alone, or with a classifier of texts, tokens or spans; and TinyBERT."""
    backbone, N = getattr(m, "backbone", m), getattr(m.config, "n_classes", 2)
    parts, heads = bert_encoder(backbone, reader), []
    if hasattr(m, "ends"):
        heads = [reader.boxes(("B", "T", 2), m.ends, name="Start and end of the span")]
    elif hasattr(m, "classes"):
        pooler = reader.boxes(("B", "C"), getattr(m, "pooler", None))
        shape = ("B", N) if pooler else ("B", "T", N)
        heads = [(*pooler, *reader.boxes(shape, m.classes, name="Linear head"))]
    teacher = "B", "T", getattr(m.config, "teacher_width", None)
    for name, of in (("embedding_projection", "embeddings"), ("hidden_projection", "states")):
        box = reader.boxes(teacher, getattr(m, name, None), name=f"Projection of {of}")
        heads += [(box[0]._replace(detail="in training, to the teacher's width"),)] if box else []
    return (Column(TOKENS, (*parts, *_heads(heads))),), ()


def _heads(heads):
    return heads[0] if len(heads) == 1 else (Row(tuple(heads)),) if heads else ()


def sentence_bert(m, reader):
    """Two texts through the same weights: the second column is tied to the first."""
    columns = [Column(f"text {k} (B, T)", (*bert_encoder(m.backbone, reader),
                                           *reader.boxes(("B", "C"), m.pooling)))
               for k in (1, 2)]
    if m.pair_head is None:
        joint = reader.function(("B",), "Cosine similarity", cosine_similarity, "of the two texts",
                                COSINE),
    else:
        joint = (reader.function(("B", 3 * m.config.d_model), "Concatenation", type(m),
                                 "u, v and |u - v|", (
                                     r"du = dy_1 + \mathrm{sgn}(u - v)\,dy_3",
                                     r"dv = dy_2 - \mathrm{sgn}(u - v)\,dy_3")),
                 *reader.boxes(("B", m.config.n_classes), m.pair_head, name="Linear head"))
    if m.pooler is not None:
        columns.append(Column("", reader.boxes(("B", "C"), m.pooler, name="Class pooler, unused")))
    return tuple(columns), joint


def clip_text_encoder(m, reader):
    c = m.config
    reader.at_most("T", c.context_length)
    C = reader.letter("C", c.d_model)
    transformer_sizes(c, reader)
    reader.letter("V", c.vocab_size)
    shape = "B", "T", C
    last = reader.function(("B", C), "End token", type(m), "its vector at the top", AT_TOKEN)
    parts = (*reader.boxes(shape, m.embedding, m.positions),
             *reader.stacks(m.encoder.blocks, MASKED, shape), *reader.boxes(shape, m.encoder.norm),
             last, *reader.boxes(("B", c.d_embedding), m.projection,
                                 name="Projection"))
    return (Column("texts (B, T)", parts),), ()


def language_model(m, reader):
    """A recurrent or convolutional one: equal layers, which may differ in dilation."""
    c = m.config
    reader.at_most("T", c.context_length)
    reader.letter("C", c.d_model)
    logits = "B", "T", reader.letter("V", c.vocab_size)
    embedding = reader.boxes(VECTORS, m.embedding)
    blocks = [reader.numbered(lambda each: _language_layer(m, layer, each)) for layer in m.layers]
    dilations = [layer.convolution.dilation for layer in m.layers if hasattr(layer, "convolution")]
    if len(set(dilations)) > 1:
        detail = (f"width {len(m.layers[0].convolution.weight.data)}, "
                  f"dilations {', '.join(map(str, dilations))}")
        blocks = [(Residual((block[0].parts[0]._replace(detail=detail),)),) for block in blocks]
    parts = (*embedding, Stack(len(blocks), blocks[0]), *reader.boxes(VECTORS, m.norm),
             *reader.boxes(logits, m.head))
    return (Column(TOKENS, parts),), ()


def _language_layer(m, layer, reader):
    parts = reader.parts(reader.box(VECTORS, layer), layer)
    return (Residual(parts),) if m.residual else parts


def seq2seq(m, reader):
    """Every state of the encoder goes to attention; the last one becomes the decoder's first."""
    c, attentive = m.config, m.config.attention != "none"
    reader.letter("C", c.d_model)
    F = reader.letter("F", c.d_hidden)
    logits = "B", "T", reader.letter("V", c.vocab_size)
    encoder = (*reader.boxes(("B", "S", "C"), m.source),
               *reader.boxes(("B", "S", F), m.encoder))
    first = reader.boxes(("B", F), m.first, name="First state",
                         detail="tanh of a linear map of the last state")
    encoder += (Row(((), first)),) if attentive else first
    width = (2 if attentive else 1) * c.d_hidden
    parts = (*reader.boxes(("B", "T", "C"), m.target),
             *reader.boxes(("B", "T", width), m.decoder, reads_memory=True),
             *reader.boxes(logits, m.output, name="Linear head",
                           detail="of the states, the contexts and the embeddings" if attentive
                           else "of the states and the embeddings"))
    return (Column("inputs (B, S)", encoder), Column("outputs so far (B, T)", parts)), ()


def ngram_model(m, reader):
    """Tables of counts instead of layers."""
    V = reader.letter("V", m.config.vocab_size)
    reader.at_most("T", m.config.context_length)
    reader.sizes["n"] = m.n or "chosen in training"
    size = sum(parameter.data.size for parameter in m.parameters())
    contexts = reader.function(("B", "T", "n - 1"), "Contexts", type(m), "the last n - 1 tokens",
                               ("no gradient: nothing is trained by descent",))
    counts = reader.function(("B", "T", "n", V), "Counts of n-grams", KneserNey,
                             "a table for each length up to n",
                             ("no gradient: counting maximizes the likelihood",))
    p = reader.function(("B", "T", V), "Kneser-Ney smoothing", KneserNey,
                        "discounted counts, interpolated with those of shorter contexts",
                        ("no gradient",))
    return (Column(TOKENS, (contexts, counts._replace(parameters=int(np.int64(size))), p)),), ()
