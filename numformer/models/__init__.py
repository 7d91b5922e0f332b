"""Layers wired into the architectures of the papers."""

from numformer.models.bert import BERT_CONFIGS, Bert, BertConfig, MaskedTokenHead
from numformer.models.bert_classifier import BertClassifier, BertClassifierConfig
from numformer.models.bert_encoder import BertEncoder, BertEncoderConfig
from numformer.models.classifiers import (
    DecoderClassifier, DecoderClassifierConfig, backbone_options, load_pretrained_backbone)
from numformer.models.bert_heads import (
    BertSpanClassifier, BertSpanClassifierConfig, BertTokenClassifier, BertTokenClassifierConfig,
    best_spans)
from numformer.models.clip import (
    CLIP, CLIP_CONFIGS, CLIPConfig, CLIPTextConfig, CLIPTextEncoder)
from numformer.models.convolutional import (
    ConvolutionLanguageModel, ConvolutionLanguageModelConfig)
from numformer.models.decoder import Decoder
from numformer.models.decoder_config import (
    DECODERS, GPT2, LLAMA, TRANSFORMER_2017, DecoderConfig)
from numformer.models.detr import DETR, BoxHead, DETRBlock, DETRConfig
from numformer.models.encoder_decoder import EncoderDecoder
from numformer.models.encoder_decoder_config import (
    BART, ENCODER_DECODERS, T5, EncoderDecoderConfig)
from numformer.models.ngram import KneserNey
from numformer.models.ngram_decoder import (
    NGramDecoder, NGramDecoderConfig, TokenAndNGramEmbedding)
from numformer.models.ngram_language_model import NGramLanguageModel, NGramLanguageModelConfig
from numformer.models.recurrent import RecurrentLanguageModel, RecurrentLanguageModelConfig
from numformer.models.sentence_bert import SentenceBert, SentenceBertConfig
from numformer.models.seq2seq import Seq2Seq, Seq2SeqCache, Seq2SeqConfig
from numformer.models.swin import SWIN_CONFIGS, Swin, SwinConfig, SwinStage
from numformer.models.tinybert import (
    TinyBert, TinyBertConfig, check_teacher, taught, teacher_states)
from numformer.models.transformer import Encoder, EncoderConfig, TransformerConfig
from numformer.models.vision import (
    CONVOLUTION_CONFIGS, ConvolutionClassifier, ConvolutionClassifierConfig)
from numformer.models.vision_transformer import (
    VISION_CONFIGS, VisionTransformer, VisionTransformerConfig)

CONFIGS = DECODERS | ENCODER_DECODERS | BERT_CONFIGS          # the published sizes, for `count`
KINDS = {                                                     # models that a checkpoint may hold
    "Bert": (Bert, BertConfig),
    "BertClassifier": (BertClassifier, BertClassifierConfig),
    "BertSpanClassifier": (BertSpanClassifier, BertSpanClassifierConfig),
    "BertTokenClassifier": (BertTokenClassifier, BertTokenClassifierConfig),
    "CLIP": (CLIP, CLIPConfig),
    "CLIPTextEncoder": (CLIPTextEncoder, CLIPTextConfig),
    "ConvolutionClassifier": (ConvolutionClassifier, ConvolutionClassifierConfig),
    "ConvolutionLanguageModel": (ConvolutionLanguageModel, ConvolutionLanguageModelConfig),
    "DETR": (DETR, DETRConfig),
    "Decoder": (Decoder, DecoderConfig),
    "DecoderClassifier": (DecoderClassifier, DecoderClassifierConfig),
    "EncoderDecoder": (EncoderDecoder, EncoderDecoderConfig),
    "NGramDecoder": (NGramDecoder, NGramDecoderConfig),
    "NGramLanguageModel": (NGramLanguageModel, NGramLanguageModelConfig),
    "RecurrentLanguageModel": (RecurrentLanguageModel, RecurrentLanguageModelConfig),
    "SentenceBert": (SentenceBert, SentenceBertConfig),
    "Seq2Seq": (Seq2Seq, Seq2SeqConfig),
    "Swin": (Swin, SwinConfig),
    "TinyBert": (TinyBert, TinyBertConfig),
    "VisionTransformer": (VisionTransformer, VisionTransformerConfig),
}

__all__ = [
    "BART", "BERT_CONFIGS", "Bert", "BertClassifier", "BertClassifierConfig", "BertConfig",
    "BertEncoder", "BertEncoderConfig", "BertSpanClassifier", "BertSpanClassifierConfig",
    "BertTokenClassifier", "BertTokenClassifierConfig", "BoxHead", "CLIP", "CLIPConfig",
    "CLIPTextConfig", "CLIPTextEncoder", "CLIP_CONFIGS", "CONFIGS", "CONVOLUTION_CONFIGS",
    "ConvolutionClassifier", "ConvolutionClassifierConfig", "ConvolutionLanguageModel",
    "ConvolutionLanguageModelConfig", "DECODERS", "DETR", "DETRBlock", "DETRConfig", "Decoder",
    "DecoderClassifier", "DecoderClassifierConfig", "DecoderConfig", "ENCODER_DECODERS", "Encoder",
    "EncoderConfig", "EncoderDecoder", "EncoderDecoderConfig", "GPT2", "KINDS", "KneserNey",
    "LLAMA", "MaskedTokenHead", "NGramDecoder", "NGramDecoderConfig", "NGramLanguageModel",
    "NGramLanguageModelConfig", "RecurrentLanguageModel", "RecurrentLanguageModelConfig",
    "SWIN_CONFIGS", "SentenceBert", "SentenceBertConfig", "Seq2Seq", "Seq2SeqCache",
    "Seq2SeqConfig", "Swin", "SwinConfig", "SwinStage", "T5", "TRANSFORMER_2017", "TinyBert",
    "TinyBertConfig", "TokenAndNGramEmbedding", "TransformerConfig", "VISION_CONFIGS",
    "VisionTransformer", "VisionTransformerConfig", "backbone_options", "best_spans",
    "check_teacher", "load_pretrained_backbone", "taught", "teacher_states",
]
