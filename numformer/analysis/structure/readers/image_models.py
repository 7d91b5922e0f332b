"""Models of images: Vision Transformers, Swin, DETR, CLIP and convolutional networks."""

from numformer.analysis.structure.readers.text_models import (
    COSINE, clip_text_encoder, transformer_sizes)
from numformer.description import Column, Residual, Row, stacked
from numformer.functional import cosine_similarity
from numformer.functional.activations.table import spelled
from numformer.models import ConvolutionClassifier


def image_name(config):
    """What a column of images begins with."""
    side = config.image_size
    return f"images (B, {side}, {side}, {config.channels})"


def vision_transformer(m, reader):
    c = m.config
    transformer_sizes(c, reader)
    C = reader.letter("C", c.d_model)
    patches = c.side ** 2
    shape = "B", reader.letter("T", patches + c.first_patch), C
    before = ("B", patches, C) if c.first_patch else shape
    parts = [*reader.boxes(before, m.patches, m.positions)]
    parts += (*reader.boxes(shape, m.class_token, name="Class token, prepended"),
              *reader.boxes(shape, m.embedding_norm),
              *reader.stacks(m.encoder.blocks, shape=shape), *reader.boxes(shape, m.encoder.norm),
              *reader.boxes(("B", C), m.pooling),
              *reader.boxes(("B", c.n_classes), m.head, name="Linear head"))
    return (Column(image_name(c), tuple(parts)),), ()


def clip(m, reader):
    (text,), _ = clip_text_encoder(m.text, reader)
    (image,), _ = vision_transformer(m.image, reader)
    shape = "B", "B"
    similarity = reader.function(shape, "Cosine similarity", cosine_similarity,
                                 "of every image with every text", COSINE)
    scale = reader.box(shape, m.logit_scale, name="Temperature", detail="times exp(logit scale)")
    return (image, text), (similarity, scale)


def swin(m, reader):
    """Stages: between two of them, four neighbours are merged into one vector."""
    c, parts = m.config, []
    for stage, (_, _, C, side, _) in zip(m.stages, c.stages):
        shape = "B", side, side, C
        if not parts:
            parts += reader.boxes(("B", side * side, C), m.patches, m.embedding_norm)
        parts += reader.boxes(shape, stage.merging)
        parts += stacked([reader.block(block, "Window attention", shape) for block in stage.blocks])
    width = c.stages[-1][2]
    parts += (*reader.boxes(("B", side * side, width), m.norm),
              *reader.boxes(("B", width), m.pooling),
              *reader.boxes(("B", c.n_classes), m.head, name="Linear head"))
    return (Column(image_name(c), tuple(parts)),), ()


def detr(m, reader):
    c = m.config
    reader.letter("C", c.d_model)
    Q, S = reader.letter("Q", c.n_queries), reader.letter("S", c.side ** 2)
    memory, objects = ("B", S, "C"), ("B", Q, "C")
    positions = reader.boxes(("S", "C"), m.positions)
    encoder = (*reader.boxes(memory, m.patches),
               *stacked([_detr_block(block, reader, memory) for block in m.encoder],
                        tuple(box._replace(detail="to q and k") for box in positions)),
               *reader.boxes(memory, m.encoder_norm))
    heads = Row((reader.boxes(("B", Q, c.n_classes + 1), m.class_head, name="Class head"),
                 reader.boxes(("B", Q, 4), m.box_head)))
    decoder = (reader.box((Q, "C"), m.queries, name="Object queries",
                          detail="trained; added to q and k"),
               *stacked([_detr_block(block, reader, objects) for block in m.decoder]),
               *reader.boxes(objects, m.decoder_norm), heads)
    return (Column(image_name(c), encoder), Column("zeros (B, Q, C)", decoder)), ()


def _detr_block(block, reader, shape):
    return reader.numbered(lambda each: _detr_parts(block, each, shape))


def _detr_parts(block, reader, shape):
    attention = reader.box(shape, block.attention, name="Self-attention")
    parts = [Residual((*reader.boxes(shape, block.norm1),
                       *reader.parts(attention, block.attention)))]
    if block.cross_attention is not None:
        cross = reader.box(shape, block.cross_attention, name="Cross-attention", reads_memory=True)
        parts.append(Residual((*reader.boxes(shape, block.norm2),
                               *reader.parts(cross, block.cross_attention))))
    parts.append(Residual((*reader.boxes(shape, block.norm3), *reader.parts(
        reader.box(shape, block.feedforward), block.feedforward))))
    return tuple(parts)


def convolution_classifier(m, reader):
    """Convolutions, each with a nonlinearity and pooling; then a feed-forward network."""
    c, parts, size = m.config, [], m.config.image_size
    f = f"then {spelled(c.activation)}"
    for convolution, side in zip(m.convolutions, c.sides):
        width, size = len(convolution.weight.data), size + 2 * c.padding
        size, F = size - width + 1, convolution.weight.data.shape[3]
        box = reader.box(("B", size, size, F), convolution)
        size = side
        parts += (box._replace(detail=f"{box.detail}, {f}"),
                  reader.box(("B", size, size, F), m.pooling))
    flat = size * size * F
    parts.append(reader.function(("B", flat), "Flatten", ConvolutionClassifier,
                                 "the feature maps become one vector",
                                 (r"dx = dy\;\mathrm{in\ the\ shape\ of}\;x",)))
    for linear in m.hidden:
        box = reader.box(("B", linear.weight.data.shape[1]), linear)
        parts.append(box._replace(detail=f"{box.detail}, {f}"))
    parts += reader.boxes(("B", c.n_classes), m.head, name="Linear head")
    return (Column(image_name(c), tuple(parts)),), ()
