"""The encoder, the Vision Transformer with its layers, and models of images, text and points."""

import numpy as np

from numformer.functional import AttentionPattern
from numformer.layers import (
    ClassHeads, BatchNorm, LearnedPositions2D, PatchEmbedding, Pooling, SinusoidalPositions2D,
    VectorQuantizer)
from numformer.models import (
    CLIP, CLIPConfig, CLIPTextConfig, CLIPTextEncoder, Encoder, EncoderConfig, PointCloudClassifier,
    PointCloudClassifierConfig, VisionLanguageModel, VisionLanguageModelConfig, VisionTransformer,
    VisionTransformerConfig)
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case
from numformer.verify.registry.transformer import trained_with


def encoder(**options):
    sizes = dict(n_layers=2, n_heads=2, d_model=4, d_hidden=5)
    return lambda rng, dtype: Encoder(EncoderConfig(**{**sizes, **options},
                                                    dtype=np.dtype(dtype).name), rng)


def embedded(form, **options):
    return lambda rng, dtype: PatchEmbedding(4, 2, 3, 5, rng, form, dtype=dtype, **options)


GIVEN = np.array([0.3, -0.2, 1.0, 0.0, 2.0]), np.array([0.5, 2.0, 1.0, 3.0, 0.1])
REAL = np.array([[True, True, False], [True, False, True]])


def vision(**options):
    sizes = dict(image_size=4, patch_size=2, channels=2, n_classes=3, n_layers=1, n_heads=2,
                 d_model=4, d_hidden=6)
    return lambda rng, dtype: VisionTransformer(VisionTransformerConfig(**{**sizes, **options},
                                                                        dtype=np.dtype(dtype).name),
                                                rng)


def labelled():
    return np.random.default_rng(7).standard_normal((2, 4, 4, 2)), np.array([2, 0])


CAPTIONS = np.array([[1, 5, 2, 6], [1, 6, 0, 0], [3, 4, 6, 6]])       # 6 ends a text
TEXT = dict(vocab_size=7, context_length=4, n_layers=2, d_embedding=3)


def texts(**options):
    sizes = dict(TEXT, n_heads=2, d_model=4, d_hidden=5)
    return lambda rng, dtype: CLIPTextEncoder(CLIPTextConfig(**{**sizes, **options},
                                                             dtype=np.dtype(dtype).name), rng)


def clip(**options):
    sizes = dict(TEXT, n_layers=1, image_size=4, patch_size=2, channels=1, n_heads=2, d_model=4,
                 d_hidden=5, text_layers=1, text_heads=1, text_width=3, text_hidden=2,
                 temperature=0.5)
    return lambda rng, dtype: CLIP(CLIPConfig(**{**sizes, **options}, dtype=np.dtype(dtype).name),
                                   rng)


def captioned(ids):
    return ids, np.random.default_rng(7).standard_normal((3, 4, 4, 1)), np.array([4, 2, 3])


def vision_language(**options):
    sizes = dict(image_size=4, patch_size=2, channels=2, vocab_size=7, context_length=7,
                 n_layers=2, n_heads=2, d_model=4, d_hidden=5)
    return lambda rng, dtype: VisionLanguageModel(VisionLanguageModelConfig(
        **{**sizes, **options}, dtype=np.dtype(dtype).name), rng)


QUESTIONS = np.array([[1, 5, 2], [1, 6, 6]])


def answered(ids):
    images = np.random.default_rng(7).standard_normal((2, 4, 4, 2))
    return ids, images, np.array([[-100, 2, 4], [-100, -100, 3]])


def points(**options):
    sizes = dict(context_length=4, d_point=3, n_classes=3, n_layers=2, n_heads=2, d_model=4,
                 d_hidden=5)
    return lambda rng, dtype: PointCloudClassifier(PointCloudClassifierConfig(
        **{**sizes, **options}, dtype=np.dtype(dtype).name), rng)


def labelled_clouds():
    return np.random.default_rng(7).standard_normal((2, 4, 3)), np.array([2, 0])


LAYERS = [
    Case("encoder", encoder(), [(2, 3, 4)], lambda: {"pattern": AttentionPattern(lengths=[3, 1])},
         wrong=[((floats(2, 3, 7),), ValueError, "C=4"), ((floats(3, 4),), ValueError, "C=4")]),
    Case("encoder, post-norm, dropout", encoder(
        n_layers=1, norm_first=False, feedforward="relu", dropout=0.3),
         [(2, 3, 4)], seeded),
    Case("encoder, rotary, rms norm, local and global",
         encoder(positions="rotary", norm="rms_norm", feedforward="geglu", bias=False,
                 sliding_window=2, layer_types="full_attention,sliding_attention"), [(1, 4, 4)]),
    Case("batch norm", lambda rng, dtype: BatchNorm(5, dtype=dtype), [(2, 3, 5)],
         wrong=[((floats(2, 4),), ValueError, "C=5"),
                ((floats(1, 5),), ValueError, "2 vectors or more")]),
    Case("batch norm without bias, masked",
         lambda rng, dtype: BatchNorm(5, bias=False, dtype=dtype), [(2, 3, 5)],
         lambda: {"mask": REAL}, wrong=[((floats(3, 2, 5),), ValueError, "(3, 2), True = real")]),
    Case("batch norm, statistics given", lambda rng, dtype: BatchNorm(5, dtype=dtype), [(2, 5)],
         lambda: {"statistics": GIVEN}),
    *(Case(f"patch embedding, {form}", embedded(form), [(2, 4, 4, 3)],
           wrong=[((floats(2, 4, 4, 1),), ValueError, "channels=3"),
                  ((floats(2, 6, 4, 3),), ValueError, "height=4"),
                  ((floats(4, 4, 3),), ValueError, "(B, height, width, channels)")])
      for form in ("flatten", "convolution")),
    Case("patch embedding without bias", embedded("convolution", bias=False), [(1, 4, 4, 3)]),
    Case("sinusoidal positions 2-D", lambda rng, dtype: SinusoidalPositions2D(2, 3, 4), [(2, 6, 4)],
         wrong=[((floats(2, 5, 4),), ValueError, "T=6")]),
    Case("learned positions 2-D", lambda rng, dtype: LearnedPositions2D(2, 3, 4, rng, dtype=dtype),
         [(2, 6, 4)],
         wrong=[((floats(2, 6, 5),), ValueError, "C=4")]),
    Case("class heads", lambda rng, dtype: ClassHeads(2, 4, 3, rng, dtype=dtype), [(2, 3, 4)],
         wrong=[((floats(2, 1, 4),), ValueError, "at least 2"),
                ((floats(2, 3, 5),), ValueError, "C=4")]),
    *(Case(f"pooling, {kind}", lambda rng, dtype, kind=kind: Pooling(kind), [(2, 3, 4)],
           wrong=[((floats(3, 4),), ValueError, "(B, T, C)"),
                  ((floats(2, 0, 4),), ValueError, "")]) for kind in ("class", "mean", "max")),
    Case("text encoder of CLIP", texts(), [], ids=(CAPTIONS,),
         wrong=[((CAPTIONS[0],), ValueError, "(B, T)"), ((CAPTIONS + 1,), ValueError, "0 .. 6"),
                ((np.tile(CAPTIONS, 2),), ValueError, "only 0 .. 3")]),
    Case("text encoder of CLIP, end token, padding", texts(n_layers=1, eos_id=6, dropout=0.2), [],
         lambda: {"lengths": np.array([4, 2, 3]), **seeded()}, ids=(CAPTIONS,),
         wrong=[((CAPTIONS % 6,), ValueError, "row 0 of ids has no end token, eos_id=6")]),
    *(Case(f"pooling, {kind}, masked", lambda rng, dtype, kind=kind: Pooling(kind), [(2, 3, 4)],
           lambda: {"mask": REAL})
      for kind in ("mean", "max")),
]

ESTIMATORS = [
    Case("vector quantizer", lambda rng, dtype: VectorQuantizer(5, 3, rng, dtype=dtype),
         [(2, 4, 3)],
         wrong=[((floats(2, 4),), ValueError, "C=3"), ((floats(0, 3),), ValueError, "empty")]),
]

MODELS = [
    Case("vision transformer", vision(n_layers=2), [(2, 4, 4, 2)], batch=labelled,
         wrong=[((floats(2, 4, 4, 3),), ValueError, "channels=2"),
                ((floats(2, 6, 6, 2),), ValueError, "height=4"),
                ((floats(4, 4, 2),), ValueError, "(B, height, width, channels)")]),
    Case("vision transformer of two class tokens, norm of the embeddings",
         vision(n_class_tokens=2, embedding_norm=True, feedforward="quick_gelu"), [(2, 4, 4, 2)],
         batch=labelled),
    Case("vision transformer, a class token without head",
         vision(n_class_tokens=2, n_class_heads=1), [(2, 4, 4, 2)], batch=labelled),
    Case("vision transformer, mean of patches, sinusoids, dropout",
         trained_with(vision(pooling="mean", positions="sinusoidal_2d", patches="convolution",
                             dropout=0.3), label_smoothing=0.1), [(2, 4, 4, 2)], seeded,
         batch=labelled),
    Case("vision transformer, relative bias of T5",
         vision(positions="t5", n_buckets=6, max_distance=4), [(2, 4, 4, 2)], batch=labelled),
    Case("vision transformer, positions of Shaw, mean",
         vision(positions="shaw", max_distance=2, pooling="mean"), [(2, 4, 4, 2)], batch=labelled),
    Case("vision transformer, learned positions concatenated, trained swish in the gate",
         vision(positions="concatenated_learned", feedforward="gated_swish"), [(2, 4, 4, 2)],
         batch=labelled),
    Case("vision transformer, maximum, rows and columns, post-norm",
         vision(pooling="max", positions="learned_2d", norm_first=False, feedforward="swiglu",
                bias=False), [(2, 4, 4, 2)], batch=labelled),
    Case("vision transformer without biases in patches and head",
         vision(patch_bias=False, head_bias=False), [(2, 4, 4, 2)], batch=labelled),
    Case("CLIP", clip(), [(2, 4, 4, 1)], ids=(CAPTIONS,), batch=captioned,
         wrong=[((CAPTIONS, floats(2, 4, 4, 3)), ValueError, "channels=1"),
                ((CAPTIONS[0], floats(2, 4, 4, 1)), ValueError, "(B, T)"),
                ((CAPTIONS + 1, floats(2, 4, 4, 1)), ValueError, "0 .. 6")]),
    Case("CLIP, end token, dropout", clip(eos_id=6, feedforward="gelu", dropout=0.2),
         [(1, 4, 4, 1)], seeded, ids=(CAPTIONS,), batch=captioned,
         wrong=[((CAPTIONS % 6, floats(2, 4, 4, 1)), ValueError, "row 0 of ids")]),
    Case("vision-language model", vision_language(), [(2, 4, 4, 2)], ids=(QUESTIONS,),
         batch=answered,
         wrong=[((QUESTIONS, floats(2, 4, 4, 3)), ValueError, "channels=2"),
                ((QUESTIONS[0], floats(2, 4, 4, 2)), ValueError, "(B, T)"),
                ((QUESTIONS + 1, floats(2, 4, 4, 2)), ValueError, "0 .. 6"),
                ((QUESTIONS[:1], floats(2, 4, 4, 2)), ValueError, "an image for each row"),
                ((np.tile(QUESTIONS, 2), floats(2, 4, 4, 2)), ValueError, "0 .. 6")]),
    Case("vision-language model, rotary, post-norm, dropout",
         trained_with(vision_language(n_layers=1, positions="rotary", norm_first=False,
                                      feedforward="swiglu", bias=False, dropout=0.3),
                      label_smoothing=0.1),
         [(2, 4, 4, 2)], seeded, ids=(QUESTIONS,), batch=answered),
    Case("point cloud classifier", points(), [(2, 4, 3)], batch=labelled_clouds,
         wrong=[((floats(2, 4, 2),), ValueError, "coordinates=3"),
                ((floats(4, 3),), ValueError, "(B, T, coordinates)"),
                ((floats(2, 0, 3),), ValueError, "at least one")]),
    Case("point cloud classifier, mean, post-norm, dropout",
         points(n_layers=1, pooling="mean", norm_first=False, bias=False, dropout=0.3),
         [(2, 4, 3)], seeded, batch=labelled_clouds),
]
