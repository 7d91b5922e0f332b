"""Layers wired into the architectures of the papers."""

from numformer.models.account import account
from numformer.models.bert import BERT_CONFIGS, Bert, BertConfig
from numformer.models.bert_classifier import BertClassifier, BertClassifierConfig
from numformer.models.bert_encoder import BertEncoder, BertEncoderConfig, take_over_trunk, trunk_switches
from numformer.models.blocks import BlockConfig
from numformer.models.convolution_language_model import ConvolutionLanguageModel, ConvolutionLanguageModelConfig
from numformer.models.counting import count
from numformer.models.decoder import Decoder
from numformer.models.decoder_config import DECODERS, GPT2, LLAMA, TRANSFORMER_2017, DecoderConfig
from numformer.models.distance import gradient_by_block, gradient_by_distance
from numformer.models.encoder import Encoder, EncoderConfig
from numformer.models.encoder_decoder import EncoderDecoder
from numformer.models.encoder_decoder_config import BART, ENCODER_DECODERS, T5, EncoderDecoderConfig
from numformer.models.logit_lens import logit_contributions, logit_lens
from numformer.models.ngram import KneserNey
from numformer.models.ngram_language_model import NGramLanguageModel, NGramLanguageModelConfig
from numformer.models.recurrent_language_model import RecurrentLanguageModel, RecurrentLanguageModelConfig
from numformer.models.sentence_bert import SentenceBert, SentenceBertConfig
from numformer.models.seq2seq import Seq2Seq, Seq2SeqCache, Seq2SeqConfig
from numformer.models.vision_transformer import VISION_CONFIGS, VisionTransformer, VisionTransformerConfig
from numformer.models.watch import dead_units, hidden_activations, residual_stream, watch

CONFIGS = DECODERS | ENCODER_DECODERS | BERT_CONFIGS                  # the published sizes, for `count`
KINDS = {                                                             # what a checkpoint may hold: the model and its config
    "Bert": (Bert, BertConfig),
    "BertClassifier": (BertClassifier, BertClassifierConfig),
    "ConvolutionLanguageModel": (ConvolutionLanguageModel, ConvolutionLanguageModelConfig),
    "Decoder": (Decoder, DecoderConfig),
    "EncoderDecoder": (EncoderDecoder, EncoderDecoderConfig),
    "NGramLanguageModel": (NGramLanguageModel, NGramLanguageModelConfig),
    "RecurrentLanguageModel": (RecurrentLanguageModel, RecurrentLanguageModelConfig),
    "SentenceBert": (SentenceBert, SentenceBertConfig),
    "Seq2Seq": (Seq2Seq, Seq2SeqConfig),
    "VisionTransformer": (VisionTransformer, VisionTransformerConfig),
}

__all__ = [
    "BART", "BERT_CONFIGS", "Bert", "BertClassifier", "BertClassifierConfig", "BertConfig", "BertEncoder", "BertEncoderConfig",
    "BlockConfig", "CONFIGS", "ConvolutionLanguageModel", "ConvolutionLanguageModelConfig", "DECODERS", "Decoder",
    "DecoderConfig", "ENCODER_DECODERS", "Encoder", "EncoderConfig", "EncoderDecoder", "EncoderDecoderConfig", "GPT2", "KINDS",
    "KneserNey", "LLAMA", "NGramLanguageModel", "NGramLanguageModelConfig", "RecurrentLanguageModel", "RecurrentLanguageModelConfig",
    "SentenceBert", "SentenceBertConfig", "Seq2Seq", "Seq2SeqCache", "Seq2SeqConfig", "T5", "TRANSFORMER_2017", "VISION_CONFIGS",
    "VisionTransformer", "VisionTransformerConfig", "account", "count", "dead_units", "gradient_by_block", "gradient_by_distance",
    "hidden_activations", "logit_contributions", "logit_lens", "residual_stream", "take_over_trunk", "trunk_switches", "watch",
]
