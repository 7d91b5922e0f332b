"""Layers wired into the architectures of the papers; a family is a folder."""

from numformer.config import Config
from numformer.models.bert.classifier import BertClassifier, BertClassifierConfig
from numformer.models.bert.encoder import BertEncoder, BertEncoderConfig
from numformer.models.bert.model import BERT_CONFIGS, Bert, BertConfig, MaskedTokenHead
from numformer.models.bert.prediction_head import PooledHead, PredictionHead
from numformer.models.bert.sentence_bert import SentenceBert, SentenceBertConfig
from numformer.models.bert.span_classifier import (
    BertSpanClassifier, BertSpanClassifierConfig, best_spans)
from numformer.models.bert.token_classifier import BertTokenClassifier, BertTokenClassifierConfig
from numformer.models.clip.config import CLIP_CONFIGS, CLIPConfig, CLIPTextConfig
from numformer.models.clip.model import CLIP
from numformer.models.clip.text_encoder import CLIPTextEncoder
from numformer.models.convolutional.classifier import (
    CONVOLUTION_CONFIGS, ConvolutionClassifier, ConvolutionClassifierConfig)
from numformer.models.convolutional.language_model import (
    ConvolutionLanguageModel, ConvolutionLanguageModelConfig)
from numformer.models.decoder.classifier import DecoderClassifier, DecoderClassifierConfig
from numformer.models.decoder.config import (
    DECODERS, GPT2, LLAMA, TRANSFORMER_2017, DecoderConfig)
from numformer.models.decoder.model import Decoder
from numformer.models.decoder.policy import PolicyDecoder, PolicyDecoderConfig
from numformer.models.detr.block import DETRBlock
from numformer.models.detr.config import DETRConfig
from numformer.models.detr.deformable import ReferenceAttention
from numformer.models.detr.heads import BoxHead
from numformer.models.detr.model import DETR
from numformer.models.encoder_decoder.config import (
    BART, ENCODER_DECODERS, T5, EncoderDecoderConfig)
from numformer.models.encoder_decoder.model import EncoderDecoder
from numformer.models.forecaster.model import Forecaster, ForecasterConfig
from numformer.models.ngram.decoder import (
    NGramDecoder, NGramDecoderConfig, TokenAndNGramEmbedding)
from numformer.models.ngram.kneser_ney import KneserNey
from numformer.models.ngram.language_model import NGramLanguageModel, NGramLanguageModelConfig
from numformer.models.point_cloud.model import PointCloudClassifier, PointCloudClassifierConfig
from numformer.models.recurrent.language_model import (
    RecurrentLanguageModel, RecurrentLanguageModelConfig)
from numformer.models.recurrent.seq2seq import Seq2Seq, Seq2SeqCache, Seq2SeqConfig
from numformer.models.swin.config import SWIN_CONFIGS, SwinConfig
from numformer.models.swin.model import Swin, SwinStage
from numformer.models.tinybert.config import TinyBertConfig
from numformer.models.tinybert.model import TinyBert
from numformer.models.tinybert.teacher import check_teacher, taught, teacher_states
from numformer.models.transformer import Encoder, EncoderConfig, TransformerConfig
from numformer.models.transformer.pretrained import backbone_options, load_pretrained_backbone
from numformer.models.vision_language.model import VisionLanguageModel, VisionLanguageModelConfig
from numformer.models.vision_transformer.model import (
    VISION_CONFIGS, VisionTransformer, VisionTransformerConfig)

CONFIGS = DECODERS | ENCODER_DECODERS | BERT_CONFIGS          # the published language models
# What `count` and `draw` know by name: all published sizes
PUBLISHED = {name: config for table in list(globals().values()) if isinstance(table, dict)
             for name, config in table.items() if isinstance(config, Config)}
# What a checkpoint may hold: all models that have a config
KINDS = {name: (model, model.config_class) for name, model in sorted(globals().items())
         if hasattr(model, "config_class")}

# All that the modules above define, and constants
__all__ = sorted(name for name, value in globals().items() if name.isupper()
                 or getattr(value, "__module__", "").startswith(f"{__name__}."))
