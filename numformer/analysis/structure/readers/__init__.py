"""The columns of each kind of model, read from its layers."""

from numformer.analysis.structure.readers.image_models import (
    clip, convolution_classifier, detr, swin, vision_transformer)
from numformer.analysis.structure.readers.text_models import (
    bert, bert_heads, clip_text_encoder, decoder, decoder_classifier, encoder_decoder,
    language_model, ngram_model, sentence_bert, seq2seq)
from numformer.models import (
    CLIP, DETR, Bert, BertClassifier, BertEncoder, BertSpanClassifier, BertTokenClassifier,
    CLIPTextEncoder, ConvolutionClassifier, ConvolutionLanguageModel, Decoder, DecoderClassifier,
    EncoderDecoder, NGramLanguageModel, RecurrentLanguageModel, SentenceBert, Seq2Seq, Swin,
    VisionTransformer)

# each takes the model and a `Reader`, and returns columns and joint parts
READERS = {
    Bert: bert,
    BertClassifier: bert_heads,
    BertEncoder: bert_heads,
    BertSpanClassifier: bert_heads,
    BertTokenClassifier: bert_heads,
    CLIP: clip,
    CLIPTextEncoder: clip_text_encoder,
    ConvolutionClassifier: convolution_classifier,
    ConvolutionLanguageModel: language_model,
    DETR: detr,
    Decoder: decoder,
    DecoderClassifier: decoder_classifier,
    EncoderDecoder: encoder_decoder,
    NGramLanguageModel: ngram_model,
    RecurrentLanguageModel: language_model,
    SentenceBert: sentence_bert,
    Seq2Seq: seq2seq,
    Swin: swin,
    VisionTransformer: vision_transformer,
}
